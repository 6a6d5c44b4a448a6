"""The vectors of the service's signer."""

import base64
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_PAGE = json.loads((ROOT / "docs/reference/signature-vectors.json").read_text())
VECTORS = [{**it, "body": base64.b64decode(it["body_base64"])} for it in _PAGE["vectors"]]
