//! The talk in plain text before TLS (RFC 3207). Only EHLO and STARTTLS are sent.
//!
//! An answer in plain text must never count as an encrypted one (section 6). An attacker could
//! inject such an answer before the handshake. So bytes are read one at a time and none ahead:
//! injected ones reach the handshake and break it.

use lettre::transport::smtp::extension::ClientId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::stream::BoundedStream;
use super::trouble::{SmtpFailure, SmtpStep};

/// Asks the server for TLS. The handshake may begin then.
pub(super) async fn request_tls(
    tcp: &mut BoundedStream<TcpStream>,
    ehlo: &ClientId,
) -> Result<(), SmtpFailure> {
    read_answer(tcp, SmtpStep::Connect, 220).await?;
    send_line(tcp, SmtpStep::Connect, &format!("EHLO {ehlo}\r\n")).await?;
    let extensions = read_answer(tcp, SmtpStep::Connect, 250).await?;
    if !extensions.iter().any(|line| line.trim().eq_ignore_ascii_case("STARTTLS")) {
        return Err(SmtpFailure::broken(SmtpStep::Encrypt, &"the server does not offer it"));
    }
    send_line(tcp, SmtpStep::Encrypt, "STARTTLS\r\n").await?;
    read_answer(tcp, SmtpStep::Encrypt, 220).await.map(drop)
}

async fn send_line(
    tcp: &mut BoundedStream<TcpStream>,
    step: SmtpStep,
    command: &str,
) -> Result<(), SmtpFailure> {
    let written = tcp.write_all(command.as_bytes()).await;
    written.map_err(|error| SmtpFailure::broken(step, &error))
}

/// The texts of the lines of an answer with this code. Another code is a refusal.
async fn read_answer(
    tcp: &mut BoundedStream<TcpStream>,
    step: SmtpStep,
    expected: u16,
) -> Result<Vec<String>, SmtpFailure> {
    let mut texts = Vec::new();
    loop {
        let line = read_line(tcp).await.map_err(|error| SmtpFailure::broken(step, &error))?;
        let (code, rest) = line.split_at_checked(3).unwrap_or(("", ""));
        let code: u16 = code.parse().map_err(|_| SmtpFailure::unreadable_answer(step))?;
        let text = rest.get(1..).unwrap_or_default().to_owned();
        if code != expected {
            return Err(SmtpFailure::refused(step, code, &text));
        }
        texts.push(text);
        if !rest.starts_with('-') {
            return Ok(texts);
        }
    }
}

async fn read_line(tcp: &mut BoundedStream<TcpStream>) -> std::io::Result<String> {
    let mut line = Vec::new();
    loop {
        match tcp.read_u8().await? {
            b'\n' => return Ok(String::from_utf8_lossy(&line).into_owned()),
            byte => line.push(byte),
        }
    }
}
