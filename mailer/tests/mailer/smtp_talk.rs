//! One connection's side of the talk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{Received, State, Tls, Turn};

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// One connection.
pub(super) struct Talk {
    state: Arc<State>,
    stream: BufReader<Box<dyn Stream>>,
    connection: usize,
    is_encrypted: bool,
    user: Option<String>,
    mail: (String, Vec<String>),
}

impl Talk {
    pub(super) fn new(state: Arc<State>, connection: usize, tcp: TcpStream) -> Self {
        let stream: BufReader<Box<dyn Stream>> = BufReader::new(Box::new(tcp));
        let (user, mail) = (None, Default::default());
        Self { state, stream, connection, is_encrypted: false, user, mail }
    }

    /// Until one side hangs up.
    pub(super) async fn run(mut self) -> io::Result<()> {
        if self.state.setup.tls == Tls::Implicit {
            self = self.encrypted().await?;
        }
        self.answer("GREETING", "220 mail.test ESMTP").await?;
        loop {
            let line = self.hear().await?;
            self.state.commands.lock().unwrap().push((self.connection, line.clone()));
            match line.split([' ', ':']).next().unwrap_or_default() {
                "EHLO" => self.ehlo().await?,
                "STARTTLS" => {
                    if self.answer("STARTTLS", "220 2.0.0 go ahead").await? {
                        self = self.encrypted().await?;
                    }
                }
                "AUTH" => self.auth(&line).await?,
                "MAIL" => self.mail(&line).await?,
                "RCPT" => {
                    if self.answer("RCPT", "250 2.1.5 ok").await? {
                        self.mail.1.push(path(&line));
                    }
                }
                "DATA" => self.data().await?,
                "RSET" => {
                    self.mail = Default::default();
                    self.answer("RSET", "250 2.0.0 ok").await?;
                }
                "QUIT" => return self.say("221 2.0.0 bye").await,
                _ => self.say("502 5.5.1 no such command").await?,
            }
        }
    }

    async fn encrypted(self) -> io::Result<Self> {
        let tls = self.state.acceptor.accept(self.stream.into_inner()).await?;
        Ok(Self { stream: BufReader::new(Box::new(tls)), is_encrypted: true, ..self })
    }

    async fn ehlo(&mut self) -> io::Result<()> {
        let setup = &self.state.setup;
        let mut lines = vec!["mail.test".to_owned(), "ENHANCEDSTATUSCODES".to_owned()];
        if setup.tls == Tls::Start && !self.is_encrypted {
            lines.push("STARTTLS".to_owned());
        }
        if setup.login.is_some() {
            lines.push(format!("AUTH {}", setup.ways));
        }
        let last = lines.pop().unwrap_or_default();
        let mut text: String = lines.iter().map(|line| format!("250-{line}\r\n")).collect();
        text.push_str(&format!("250 {last}"));
        self.answer("EHLO", &text).await.map(drop)
    }

    async fn auth(&mut self, line: &str) -> io::Result<()> {
        let said = match line.strip_prefix("AUTH PLAIN ") {
            Some(response) => decoded(response),
            None => {
                let user = self.ask("334 VXNlcm5hbWU6").await?;
                format!("\0{user}\0{}", self.ask("334 UGFzc3dvcmQ6").await?)
            }
        };
        let expected = self.state.setup.login.map(|(user, word)| format!("\0{user}\0{word}"));
        if Some(&said) != expected.as_ref() {
            return self.answer("AUTH", "535 5.7.8 not you").await.map(drop);
        }
        if self.answer("AUTH", "235 2.7.0 welcome").await? {
            self.user = self.state.setup.login.map(|(user, _)| user.to_owned());
        }
        Ok(())
    }

    async fn ask(&mut self, question: &str) -> io::Result<String> {
        self.say(question).await?;
        Ok(decoded(&self.hear().await?))
    }

    async fn mail(&mut self, line: &str) -> io::Result<()> {
        if self.state.setup.login.is_some() && self.user.is_none() {
            return self.say("530 5.7.0 sign in first").await;
        }
        if !self.mail.0.is_empty() {
            return self.say("503 5.5.1 one at a time").await;
        }
        if self.answer("MAIL", "250 2.1.0 ok").await? {
            self.mail = (path(line), Vec::new());
        }
        Ok(())
    }

    async fn data(&mut self) -> io::Result<()> {
        if self.mail.1.is_empty() {
            return self.say("503 5.5.1 to whom?").await;
        }
        if !self.answer("DATA", "354 go ahead").await? {
            return Ok(());
        }
        let mut bytes = Vec::new();
        loop {
            let mut line = Vec::new();
            self.stream.read_until(b'\n', &mut line).await?;
            match &line[..] {
                [] => return Err(io::ErrorKind::UnexpectedEof.into()),
                b".\r\n" => break,
                [b'.', rest @ ..] => bytes.extend_from_slice(rest),
                whole => bytes.extend_from_slice(whole),
            }
        }
        let (from, to) = std::mem::take(&mut self.mail);
        self.state.contents.fetch_add(1, Ordering::SeqCst);
        if self.answer("CONTENT", "250 2.0.0 taken").await? {
            let (user, connection) = (self.user.clone(), self.connection);
            let is_encrypted = self.is_encrypted;
            let mail = Received { from, to, bytes, user, is_encrypted, connection };
            self.state.mails.lock().unwrap().push(mail);
        }
        Ok(())
    }

    /// Gives the usual answer there unless a turn is set, and returns whether the answer was a yes.
    async fn answer(&mut self, verb: &str, usual: &str) -> io::Result<bool> {
        let next = self.state.next.lock().unwrap().remove(verb);
        let turn = next.or_else(|| self.state.turns.lock().unwrap().get(verb).cloned());
        match turn {
            None => self.say(usual).await?,
            Some(Turn::After(pause)) => {
                tokio::time::sleep(pause).await;
                self.say(usual).await?;
            }
            Some(Turn::Say(text)) => {
                self.say(text).await?;
                return Ok(is_yes(verb, text));
            }
            Some(Turn::Leave(text)) => {
                self.say(text).await?;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Some(Turn::Silence) => std::future::pending().await,
            Some(Turn::HangUp) => return Err(io::ErrorKind::ConnectionAborted.into()),
        }
        Ok(is_yes(verb, usual))
    }

    async fn say(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(format!("{text}\r\n").as_bytes()).await?;
        self.stream.flush().await
    }

    async fn hear(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

/// RFC 5321, section 4.3.2.
fn is_yes(verb: &str, answer: &str) -> bool {
    answer.starts_with(if verb == "DATA" { '3' } else { '2' })
}

/// The text between the angle brackets.
fn path(line: &str) -> String {
    let inner = line.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    inner.map_or_else(String::new, |(path, _)| path.to_owned())
}

fn decoded(text: &str) -> String {
    String::from_utf8(STANDARD.decode(text).unwrap_or_default()).unwrap_or_default()
}
