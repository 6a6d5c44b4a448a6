// Receives deliveries. Run: PORT=9000 WEBHOOK_SECRETS=whsec_... go run receiver.go
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	form = regexp.MustCompile(`^t=([0-9]{1,12}),v1=([0-9a-f]{64})$`)
	// For a real one: a table with a unique column. Keep ids 30 days: a replay can come long after.
	seen sync.Map
)

// verify returns an error unless one of the secrets signed this body within 5 minutes of now.
func verify(header string, body []byte, secrets []string) error {
	parts := form.FindStringSubmatch(header)
	if parts == nil {
		return errors.New("malformed signature")
	}
	t, _ := strconv.ParseInt(parts[1], 10, 64)
	if age := time.Now().Unix() - t; age > 300 || age < -300 {
		return errors.New("stale signature")
	}
	v1, _ := hex.DecodeString(parts[2])
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "%s.%s", parts[1], body)
		if hmac.Equal(mac.Sum(nil), v1) {
			return nil
		}
	}
	return errors.New("wrong signature")
}

// receive returns the status to answer and the line to print.
func receive(r *http.Request) (int, string) {
	secrets := strings.FieldsFunc(os.Getenv("WEBHOOK_SECRETS"), func(c rune) bool { return c == ',' })
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, 4<<20)) // raw, before any parsing
	if err != nil {
		return 413, "refused " + err.Error()
	}
	if err := verify(r.Header.Get("X-Service-Signature"), body, secrets); err != nil {
		return 401, "refused " + err.Error()
	}
	delivery := r.Header.Get("X-Service-Delivery")
	if delivery == "" {
		return 400, "refused no delivery id"
	}
	if r.RequestURI == os.Getenv("GONE") { // the path of a subscription that you want to end
		return 410, "refused gone"
	}
	var payload struct{ Event string } // from the body: the headers are not signed
	if err := json.Unmarshal(body, &payload); err != nil {
		return 400, "refused " + err.Error()
	}
	// For a real one: store the id and the work to do in one transaction.
	if _, known := seen.LoadOrStore(delivery, true); known {
		return 204, "duplicate " + delivery
	}
	return 204, "accepted " + delivery + " " + payload.Event
}

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		status, line := receive(r)
		fmt.Println(line)
		w.WriteHeader(status)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		panic(err)
	}
	fmt.Println("listening on", listener.Addr())
	server := http.Server{ReadTimeout: 10 * time.Second}
	panic(server.Serve(listener))
}
