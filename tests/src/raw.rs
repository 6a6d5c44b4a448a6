//! Calls on a socket of their own, to a server that may not answer.

use std::net::{IpAddr, SocketAddr};

use axum::http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// One call to the public door; its status, and all of the answer.
pub async fn try_call(
    server: SocketAddr,
    (method, path): (&str, &str),
    key: &str,
    body: &str,
) -> Option<(StatusCode, String)> {
    let request = format!(
        "{method} /api/v1{path} HTTP/1.1\r\nHost: test\r\nX-API-Key: {key}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    exchange(server, &request).await
}

/// A batch of activity for the internal door; its status.
pub async fn report(server: SocketAddr, token: &str, batch: &str) -> Option<StatusCode> {
    let request = format!(
        "POST /internal/v1/activity HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/cloudevents-batch+json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{batch}",
        batch.len()
    );
    Some(exchange(server, &request).await?.0)
}

/// One call to the internal door; its status, and all of the answer.
pub async fn call_internally(
    server: SocketAddr,
    (method, path): (&str, &str),
    token: &str,
    body: &str,
) -> Option<(StatusCode, String)> {
    let request = format!(
        "{method} /internal/v1{path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    exchange(server, &request).await
}

/// A question without a key to any path; its status, and all of the answer.
pub async fn get(server: SocketAddr, path: &str) -> Option<(StatusCode, String)> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    exchange(server, &request).await
}

/// Any request; its status, and all of the answer.
pub async fn exchange(server: SocketAddr, request: &str) -> Option<(StatusCode, String)> {
    exchange_over(TcpStream::connect(server).await.ok()?, request).await
}

/// Any request from this loopback address; its status, and all of the answer.
pub async fn exchange_from(
    caller: IpAddr,
    server: SocketAddr,
    request: &str,
) -> Option<(StatusCode, String)> {
    let socket = TcpSocket::new_v4().ok()?;
    socket.bind(SocketAddr::new(caller, 0)).ok()?;
    exchange_over(socket.connect(server).await.ok()?, request).await
}

async fn exchange_over(mut stream: TcpStream, request: &str) -> Option<(StatusCode, String)> {
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok())?;
    Some((status, answer))
}
