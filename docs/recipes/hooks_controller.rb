# Receives deliveries in Rails. In config/routes.rb: post "/hooks", to: "hooks#receive"
require "openssl"

class HooksController < ActionController::API
  wrap_parameters false # it would parse the body before the action
  SECRETS = ENV.fetch("WEBHOOK_SECRETS").split(",").reject(&:empty?)
  # For a real one: a table with a unique column. Keep ids 30 days: a replay can come long after.
  SEEN = Set.new

  def receive
    body = request.raw_post # the raw bytes; never params, which are parsed
    verify(request.headers["X-Service-Signature"].to_s, body, SECRETS)
    delivery = request.headers["X-Service-Delivery"]
    event = JSON.parse(body)["event"] # from the body: the headers are not signed
    # For a real one: store the id and the work to do in one transaction.
    puts SEEN.add?(delivery) ? "accepted #{delivery} #{event}" : "duplicate #{delivery}"
    head :no_content
  rescue SecurityError => why
    puts "refused #{why.message}"
    head :unauthorized
  end

  private

  # Raises SecurityError unless one of the secrets signed this body within 5 minutes of now.
  def verify(header, body, secrets)
    t, v1 = header.match(/\At=([0-9]{1,12}),v1=([0-9a-f]{64})\z/)&.captures
    raise SecurityError, "malformed signature" unless v1
    raise SecurityError, "stale signature" if (Time.now.to_i - t.to_i).abs > 300
    signed = secrets.map { |secret| OpenSSL::HMAC.hexdigest("SHA256", secret, "#{t}.".b + body.b) }
    return if signed.any? { |one| ActiveSupport::SecurityUtils.secure_compare(one, v1) }
    raise SecurityError, "wrong signature"
  end
end
