<?php
// Receives deliveries. Run: WEBHOOK_SECRETS=whsec_... php -S 127.0.0.1:9000 receiver.php
declare(strict_types=1);
ini_set('display_errors', '0'); // while errors are shown, PHP answers 200 to what failed

/** Throws unless one of the secrets signed this body within 5 minutes of now. */
function verify(string $header, string $body, array $secrets): void
{
    if (!preg_match('/\At=([0-9]{1,12}),v1=([0-9a-f]{64})\z/', $header, $parts)) {
        throw new UnexpectedValueException('malformed signature');
    }
    [, $t, $v1] = $parts;
    if (abs(time() - (int) $t) > 300) {
        throw new UnexpectedValueException('stale signature');
    }
    foreach ($secrets as $secret) {
        if (hash_equals(hash_hmac('sha256', "$t.$body", $secret), $v1)) {
            return;
        }
    }
    throw new UnexpectedValueException('wrong signature');
}

/** Whether this id is new. PHP forgets between requests, so each one is a file. For a real one: a
 * table with a unique column. Keep ids 30 days: a replay can come long after. */
function isNew(string $delivery): bool
{
    $seen = getenv('SEEN') ?: sys_get_temp_dir() . '/receiver-seen';
    is_dir($seen) || @mkdir($seen, 0700, true);
    $isNew = (bool) @fopen("$seen/$delivery", 'x');
    return file_exists("$seen/$delivery") ? $isNew : throw new RuntimeException("no $seen");
}

function answer(int $status, string $line): never
{
    file_put_contents('php://stdout', "$line\n");
    http_response_code($status);
    exit;
}

$body = file_get_contents('php://input'); // the raw bytes, before anything parses them
try {
    $secrets = array_filter(explode(',', getenv('WEBHOOK_SECRETS')));
    verify($_SERVER['HTTP_X_SERVICE_SIGNATURE'] ?? '', $body, $secrets);
} catch (UnexpectedValueException $why) {
    answer(401, "refused {$why->getMessage()}");
}
$delivery = $_SERVER['HTTP_X_SERVICE_DELIVERY'] ?? '';
if (!preg_match('/\A[0-9a-f-]{36}\z/', $delivery)) { // it becomes a file's name
    answer(400, 'refused no delivery id');
}
if ($_SERVER['REQUEST_URI'] === getenv('GONE')) { // the path of a subscription to end
    answer(410, 'refused gone');
}
$event = json_decode($body, flags: JSON_THROW_ON_ERROR)->event; // the headers are not signed
if (!isNew($delivery)) { // for a real one: store the id and the work to do in one transaction
    answer(204, "duplicate $delivery");
}
answer(204, "accepted $delivery $event");
