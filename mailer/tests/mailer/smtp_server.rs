//! A mail server on a real socket, for tests: it speaks SMTP as its setup says, and keeps each mail
//! that it is handed.
//!
//! It uses nothing of the crate under test, so that any test can include this file; `smtp_talk`
//! beside it is one connection's side of the talk.

#[path = "smtp_talk.rs"]
mod talk;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use talk::Talk;

/// When a server encrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// When it is asked to.
    Start,
    /// At once.
    Implicit,
    /// Never.
    None,
}

/// An action of a server at one point.
#[derive(Clone, Debug)]
pub enum Turn {
    /// Says this.
    Say(&'static str),
    /// Says this and hangs up.
    Leave(&'static str),
    /// Says nothing, and stays.
    Silence,
    /// Hangs up.
    HangUp,
    /// Takes its time, and answers as usual.
    After(Duration),
}

/// A mail as it was handed over.
#[derive(Clone, Debug)]
pub struct Received {
    /// From `MAIL FROM`.
    pub from: String,
    /// From `RCPT TO`.
    pub to: Vec<String>,
    /// Everything between `DATA` and the single dot, dots unstuffed.
    pub bytes: Vec<u8>,
    /// The user, if signed in.
    pub user: Option<String>,
    /// Whether it came encrypted.
    pub is_encrypted: bool,
    /// Over which connection, counted from 1.
    pub connection: usize,
}

/// The setup of a server.
#[derive(Clone, Debug)]
pub struct Setup {
    /// When it encrypts.
    pub tls: Tls,
    /// The name on its certificate.
    pub name: &'static str,
    /// The login for handing over mail. Without a login anybody may.
    pub login: Option<(&'static str, &'static str)>,
    /// The ways of signing in it offers.
    pub ways: &'static str,
    /// Unusual actions by verb; also at `GREETING` and `CONTENT`.
    pub turns: Vec<(&'static str, Turn)>,
}

impl Default for Setup {
    fn default() -> Self {
        let (tls, name, ways) = (Tls::None, "127.0.0.1", "PLAIN LOGIN");
        Self { tls, name, login: None, ways, turns: Vec::new() }
    }
}

/// A server; it stops when it is dropped.
pub struct SmtpServer {
    /// Where it listens.
    pub at: SocketAddr,
    /// The root that vouches for it, in PEM.
    pub root: String,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

struct State {
    setup: Setup,
    acceptor: TlsAcceptor,
    turns: Mutex<HashMap<&'static str, Turn>>,
    next: Mutex<HashMap<&'static str, Turn>>,
    mails: Mutex<Vec<Received>>,
    commands: Mutex<Vec<(usize, String)>>,
    contents: AtomicUsize,
    talks: Mutex<JoinSet<()>>,
}

impl SmtpServer {
    /// Listens on a port of its own.
    pub async fn start(setup: Setup) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let (root, acceptor) = certificate(setup.name);
        let turns = Mutex::new(setup.turns.iter().cloned().collect());
        let state = Arc::new(State {
            setup,
            acceptor,
            turns,
            next: Mutex::default(),
            mails: Mutex::default(),
            commands: Mutex::default(),
            contents: AtomicUsize::default(),
            talks: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&state)));
        Self { at, root, state, accepting }
    }

    /// Every mail it took, in order.
    pub fn mails(&self) -> Vec<Received> {
        self.state.mails.lock().unwrap().clone()
    }

    /// Every command it heard, with its connection, counted from 1.
    pub fn commands(&self) -> Vec<(usize, String)> {
        self.state.commands.lock().unwrap().clone()
    }

    /// How many mails it heard to their end, taken or not.
    pub fn contents_heard(&self) -> usize {
        self.state.contents.load(Ordering::SeqCst)
    }

    /// From now on does this there.
    pub fn turn(&self, verb: &'static str, turn: Turn) {
        self.state.turns.lock().unwrap().insert(verb, turn);
    }

    /// Does this there, once.
    pub fn turn_once(&self, verb: &'static str, turn: Turn) {
        self.state.next.lock().unwrap().insert(verb, turn);
    }

    /// From now on answers there as usual.
    pub fn relent(&self, verb: &'static str) {
        self.state.turns.lock().unwrap().remove(verb);
    }

    /// Ends every connection without a word.
    pub async fn hang_up(&self) {
        let mut talks = std::mem::take(&mut *self.state.talks.lock().unwrap());
        talks.shutdown().await;
    }
}

impl Drop for SmtpServer {
    fn drop(&mut self) {
        self.accepting.abort();
        self.state.talks.lock().unwrap().abort_all();
    }
}

/// A root of its own and a server's certificate under it.
fn certificate(name: &str) -> (String, TlsAcceptor) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &root).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (root.pem(), TlsAcceptor::from(Arc::new(config)))
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    for connection in 1.. {
        let Ok((tcp, _)) = listener.accept().await else { return };
        let talk = Talk::new(Arc::clone(&state), connection, tcp);
        state.talks.lock().unwrap().spawn(async move {
            // A client that hangs up ends a talk like QUIT.
            let _ = talk.run().await;
        });
    }
}
