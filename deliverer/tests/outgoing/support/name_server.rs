//! A name server that answers from a test's table, over UDP and, for long answers, TCP.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

/// An answer about a name.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// These addresses, believed for no time at all.
    Addresses(Vec<IpAddr>),
    /// Another name, and its addresses.
    Alias(&'static str, Vec<IpAddr>),
    /// The name server is broken.
    ServFail,
    /// There is no such name.
    NxDomain,
    /// Nothing is said.
    Silence,
}

/// Answers one name, given how often its IPv4 addresses were asked for before.
type Table = dyn Fn(&str, usize) -> Reply + Send + Sync;

/// The name server.
pub(crate) struct NameServer {
    pub(crate) at: SocketAddr,
    asked: Arc<Mutex<HashMap<String, usize>>>,
}

/// Largest answer that goes out over UDP.
const UDP_MAX: usize = 1_200;
const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const TRUNCATED: u16 = 0x0200;

impl NameServer {
    /// Answers by a table.
    pub(crate) async fn start(
        table: impl Fn(&str, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let (udp, tcp) = sockets().await;
        let at = udp.local_addr().unwrap();
        let asked = Arc::<Mutex<HashMap<String, usize>>>::default();
        let desk = Arc::new(Desk { table: Box::new(table), asked: Arc::clone(&asked) });
        tokio::spawn(answer_udp(udp, Arc::clone(&desk)));
        tokio::spawn(answer_tcp(tcp, desk));
        Self { at, asked }
    }

    /// Gives this reply for every name.
    pub(crate) async fn always(reply: Reply) -> Self {
        Self::start(move |_, _| reply.clone()).await
    }

    /// Knows these addresses of every name.
    pub(crate) async fn knowing(addresses: &[&str]) -> Self {
        Self::always(Reply::Addresses(parsed(addresses))).await
    }

    /// How often a name's IPv4 addresses were asked for.
    pub(crate) fn asked(&self, name: &str) -> usize {
        self.asked.lock().unwrap().get(name).copied().unwrap_or_default()
    }
}

/// Addresses, written out.
pub(crate) fn parsed(addresses: &[&str]) -> Vec<IpAddr> {
    addresses.iter().map(|text| text.parse().unwrap()).collect()
}

struct Desk {
    table: Box<Table>,
    asked: Arc<Mutex<HashMap<String, usize>>>,
}

impl Desk {
    fn answer(&self, query: &[u8]) -> Option<Vec<u8>> {
        let (name, kind, question) = read_question(query);
        let mut asked = self.asked.lock().unwrap();
        let times = asked.entry(name.clone()).or_default();
        let before = *times;
        *times += usize::from(kind == A);
        let (code, records) = match (self.table)(&name, before) {
            Reply::Silence => return None,
            Reply::ServFail => (2, Vec::new()),
            Reply::NxDomain => (3, Vec::new()),
            Reply::Addresses(all) => (0, addresses(&all, kind, &[0xc0, 12])),
            Reply::Alias(to, all) => {
                let to = wire_name(to);
                let mut records = vec![record(&[0xc0, 12], CNAME, &to)];
                records.extend(addresses(&all, kind, &to));
                (0, records)
            }
        };
        Some(message(&query[..2], 0x8180 | code, question, &records))
    }
}

async fn sockets() -> (UdpSocket, TcpListener) {
    loop {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
            return (udp, tcp);
        }
    }
}

async fn answer_udp(socket: UdpSocket, desk: Arc<Desk>) {
    let mut query = [0; 512];
    while let Ok((length, from)) = socket.recv_from(&mut query).await {
        let query = &query[..length];
        let Some(mut answer) = desk.answer(query) else {
            continue;
        };
        if answer.len() > UDP_MAX {
            let (_, _, question) = read_question(query);
            answer = message(&query[..2], 0x8180 | TRUNCATED, question, &[]);
        }
        let _ = socket.send_to(&answer, from).await;
    }
}

async fn answer_tcp(listener: TcpListener, desk: Arc<Desk>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer_stream(stream, Arc::clone(&desk)));
    }
}

async fn answer_stream(mut stream: TcpStream, desk: Arc<Desk>) {
    while let Ok(length) = stream.read_u16().await {
        let mut query = vec![0; usize::from(length)];
        if stream.read_exact(&mut query).await.is_err() {
            return;
        }
        let Some(answer) = desk.answer(&query) else {
            continue;
        };
        let length = u16::try_from(answer.len()).unwrap();
        let _ = stream.write_all(&[&length.to_be_bytes()[..], &answer].concat()).await;
    }
}

fn read_question(query: &[u8]) -> (String, u16, &[u8]) {
    let mut labels = Vec::new();
    let mut at = 12;
    while query[at] != 0 {
        let end = at + 1 + usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..end]).to_lowercase());
        at = end;
    }
    let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
    (labels.join("."), kind, &query[12..at + 5])
}

fn message(id: &[u8], flags: u16, question: &[u8], records: &[Vec<u8>]) -> Vec<u8> {
    let counts = [1, u16::try_from(records.len()).unwrap(), 0, 0];
    let mut message = [id, &flags.to_be_bytes()].concat();
    message.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
    message.extend_from_slice(question);
    message.extend(records.iter().flatten());
    message
}

fn addresses(all: &[IpAddr], kind: u16, name: &[u8]) -> Vec<Vec<u8>> {
    let record = |ip: &IpAddr| match (ip, kind) {
        (IpAddr::V4(ip), A) => Some(record(name, A, &ip.octets())),
        (IpAddr::V6(ip), AAAA) => Some(record(name, AAAA, &ip.octets())),
        _ => None,
    };
    all.iter().filter_map(record).collect()
}

/// Class IN, time to live 0.
fn record(name: &[u8], kind: u16, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap().to_be_bytes();
    [name, &kind.to_be_bytes(), &[0, 1, 0, 0, 0, 0], &length, data].concat()
}

fn wire_name(name: &str) -> Vec<u8> {
    let label = |label: &str| [&[label.len() as u8], label.as_bytes()].concat();
    let mut wire: Vec<u8> = name.split('.').flat_map(label).collect();
    wire.push(0);
    wire
}
