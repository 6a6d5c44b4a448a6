#!/bin/sh
# From a key to a delivery. Run: BASE=... KEY=ffk_... TARGET=https://... sh quickstart.sh
set -eu

# 1. Test the key
curl -sS --fail-with-body -H "X-API-Key: $KEY" "$BASE/me"

# 2. List the triggers
curl -sS --fail-with-body -H "X-API-Key: $KEY" "$BASE/triggers"

# 3. See a sample
curl -sS --fail-with-body -H "X-API-Key: $KEY" "$BASE/triggers/form_submitted/sample"

# 4. Subscribe
ANSWER=$(curl -sS --fail-with-body -H "X-API-Key: $KEY" -H 'Content-Type: application/json' \
  -d "{\"trigger\": \"form_submitted\", \"target_url\": \"$TARGET\"}" "$BASE/hooks")
HOOK=$(echo "$ANSWER" | sed 's/.*"id":"\([^"]*\)".*/\1/')
echo "subscribed $HOOK"

# 5. Receive
echo "Submit a form, then press Enter."
read -r _

# 6. Unsubscribe
curl -sS --fail-with-body -X DELETE -H "X-API-Key: $KEY" "$BASE/hooks/$HOOK"
