// Receives deliveries. Run: PORT=9000 WEBHOOK_SECRETS=whsec_... java Receiver.java (17 or newer)
import static java.nio.charset.StandardCharsets.UTF_8;

import com.sun.net.httpserver.*;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.security.*;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.*;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Receiver {
    static final List<String> SECRETS = Arrays.stream(System.getenv("WEBHOOK_SECRETS").split(","))
            .filter(secret -> !secret.isEmpty()).toList();
    static final String GONE = System.getenv("GONE"); // the path of a subscription to end
    static final Pattern FORM = Pattern.compile("t=([0-9]{1,12}),v1=([0-9a-f]{64})");
    // For a real one: a table with a unique column. Keep ids 30 days: a replay can come long after.
    static final Set<String> SEEN = ConcurrentHashMap.newKeySet();

    /** Throws unless one of the secrets signed this body within 5 minutes of now. */
    static void verify(String header, byte[] body, List<String> secrets)
            throws GeneralSecurityException {
        var parts = FORM.matcher(header == null ? "" : header);
        if (!parts.matches()) throw new SignatureException("malformed signature");
        var age = Instant.now().getEpochSecond() - Long.parseLong(parts.group(1));
        if (Math.abs(age) > 300) throw new SignatureException("stale signature");
        var v1 = HexFormat.of().parseHex(parts.group(2));
        for (var secret : secrets) {
            var mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(secret.getBytes(UTF_8), "HmacSHA256"));
            mac.update((parts.group(1) + ".").getBytes(UTF_8));
            if (MessageDigest.isEqual(mac.doFinal(body), v1)) return;
        }
        throw new SignatureException("wrong signature");
    }

    static void receive(HttpExchange exchange) throws IOException {
        var body = exchange.getRequestBody().readNBytes(4 << 20); // raw; a cut one fails to verify
        var headers = exchange.getRequestHeaders();
        var delivery = headers.getFirst("X-Service-Delivery");
        // The JDK has no JSON. With a parser, take it from the body: the headers are not signed.
        var event = headers.getFirst("X-Service-Event");
        try {
            verify(headers.getFirst("X-Service-Signature"), body, SECRETS);
        } catch (GeneralSecurityException why) {
            answer(exchange, 401, "refused " + why.getMessage());
            return;
        }
        var path = exchange.getRequestURI().toString();
        if (delivery == null) answer(exchange, 400, "refused no delivery id");
        else if (path.equals(GONE)) answer(exchange, 410, "refused gone");
        // For a real one: store the id and the work to do in one transaction.
        else if (!SEEN.add(delivery)) answer(exchange, 204, "duplicate " + delivery);
        else answer(exchange, 204, "accepted " + delivery + " " + event);
    }

    static void answer(HttpExchange exchange, int status, String line) throws IOException {
        System.out.println(line);
        exchange.sendResponseHeaders(status, -1);
        exchange.close();
    }

    public static void main(String[] arguments) throws IOException {
        var port = Integer.parseInt(System.getenv("PORT"));
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", Receiver::receive);
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
        System.out.println("listening on 127.0.0.1:" + server.getAddress().getPort());
    }
}
