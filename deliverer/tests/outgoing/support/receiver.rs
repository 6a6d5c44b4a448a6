//! A receiver whose every byte a test decides.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// The source address of the connection by which [`Receiver::connections`] counts the others.
const ASKING: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 99));

/// A request as it came over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The names of its headers, in order of the alphabet.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }
}

/// Bytes both ways, encrypted or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// One connection, in the hands of a script.
pub(crate) struct Talk {
    stream: Box<dyn Stream>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Talk {
    /// The next request, or `None` when the client has left.
    pub(crate) async fn hear(&mut self) -> Option<Seen> {
        let head = self.hear_head().await?;
        let mut lines = head.split("\r\n");
        let line = lines.next()?.to_owned();
        let split = |line: &str| {
            line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        let headers = lines.filter_map(split).collect();
        let mut seen = Seen { line, headers, body: Vec::new() };
        seen.body = vec![0; seen.header("content-length").map_or(0, |n| n.parse().unwrap())];
        self.stream.read_exact(&mut seen.body).await.ok()?;
        self.seen.lock().unwrap().push(seen.clone());
        Some(seen)
    }

    async fn hear_head(&mut self) -> Option<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.ok()?);
        }
        String::from_utf8(head).ok()
    }

    /// Says this text, unless the client has left.
    pub(crate) async fn say(&mut self, text: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(text.as_ref()).await?;
        self.stream.flush().await
    }

    /// Says no more, and listens on.
    pub(crate) async fn stop_talking(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Waits until the client leaves.
    pub(crate) async fn linger(&mut self) {
        let _ = tokio::io::copy(&mut self.stream, &mut tokio::io::sink()).await;
    }
}

#[derive(Clone, Copy, Default)]
struct Accepted {
    deliveries: usize,
    questions: usize,
}

/// A listener, with the requests it has heard and the number of connections it has seen.
pub(crate) struct Receiver {
    pub(crate) at: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    accepted: watch::Receiver<Accepted>,
}

impl Receiver {
    /// Answers every request with these words.
    pub(crate) async fn saying(words: impl Into<String>) -> Self {
        let words = words.into();
        Self::answering(move |_| words.clone()).await
    }

    /// Answers every request by a rule.
    pub(crate) async fn answering(rule: impl Fn(&Seen) -> String + Send + Sync + 'static) -> Self {
        Self::listening("127.0.0.1:0", rule).await
    }

    /// Answers every request by a rule, on an address of its own.
    pub(crate) async fn listening(
        at: &str,
        rule: impl Fn(&Seen) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::start(at, None, by_rule(rule)).await
    }

    /// Answers every request by a rule, behind TLS.
    pub(crate) async fn answering_tls(
        tls: ServerConfig,
        rule: impl Fn(&Seen) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::start("127.0.0.1:0", Some(tls), by_rule(rule)).await
    }

    /// Leaves each connection to a script.
    pub(crate) async fn scripted<F: Future<Output = ()> + Send + 'static>(
        script: impl Fn(Talk) -> F + Send + Sync + 'static,
    ) -> Self {
        Self::start("127.0.0.1:0", None, script).await
    }

    async fn start<F: Future<Output = ()> + Send + 'static>(
        at: &str,
        tls: Option<ServerConfig>,
        script: impl Fn(Talk) -> F + Send + Sync + 'static,
    ) -> Self {
        let script = Arc::new(script);
        let listener = TcpListener::bind(at).await.unwrap();
        let at = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let (count, accepted) = watch::channel(Accepted::default());
        let heard = Arc::clone(&seen);
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        tokio::spawn(async move {
            while let Ok((stream, from)) = listener.accept().await {
                if from.ip() == ASKING {
                    count.send_modify(|count| count.questions += 1);
                    continue;
                }
                count.send_modify(|count| count.deliveries += 1);
                let opening = encrypted(stream, tls.clone());
                tokio::spawn(talk(opening, Arc::clone(&heard), Arc::clone(&script)));
            }
        });
        Self { at, seen, accepted }
    }

    /// A place on this receiver.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.at)
    }

    /// The requests heard so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The only request it has heard.
    pub(crate) fn only(&self) -> Seen {
        let [seen] = <[Seen; 1]>::try_from(self.seen()).unwrap();
        seen
    }

    /// How many connections were opened to it. Connections are accepted in the order they came
    /// in, so when the one made here is counted, all before it are.
    pub(crate) async fn connections(&self) -> usize {
        let mut accepted = self.accepted.clone();
        let before = accepted.borrow().questions;
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((ASKING, 0).into()).unwrap();
        let _question = socket.connect(self.at).await.unwrap();
        accepted.wait_for(|count| count.questions > before).await.unwrap().deliveries
    }
}

async fn talk<F: Future<Output = ()>>(
    opening: impl Future<Output = Option<Box<dyn Stream>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    script: Arc<impl Fn(Talk) -> F>,
) {
    if let Some(stream) = opening.await {
        script(Talk { stream, seen }).await;
    }
}

fn by_rule(
    rule: impl Fn(&Seen) -> String + Send + Sync + 'static,
) -> impl Fn(Talk) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync + 'static {
    let rule = Arc::new(rule);
    move |mut talk| {
        let rule = Arc::clone(&rule);
        Box::pin(async move {
            while let Some(seen) = talk.hear().await {
                if talk.say(rule(&seen)).await.is_err() {
                    return;
                }
            }
        })
    }
}

async fn encrypted(stream: TcpStream, tls: Option<TlsAcceptor>) -> Option<Box<dyn Stream>> {
    match tls {
        None => Some(Box::new(stream)),
        Some(tls) => Some(Box::new(tls.accept(stream).await.ok()?)),
    }
}
