//! A real browser, headless, driven by its own protocol over two pipes (Chrome DevTools Protocol).
//! No driver program and no port is needed.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// How long a browser may take for one thing, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Ends each message of the protocol.
const END: u8 = 0;

/// A page of a browser.
pub struct Browser {
    process: Child,
    _folder: TempDir,
    to: Sender,
    from: BufReader<Receiver>,
    session: Option<String>,
    last_id: u64,
    /// The URLs that the page asked for.
    pub asked: Vec<String>,
    /// Complaints of the browser: errors of scripts, breaches of the policy.
    pub complaints: Vec<String>,
    loads: usize,
    /// The URL of the page.
    place: String,
    /// The URL of the last page that was whole.
    whole: String,
}

impl Browser {
    /// A browser with an empty page; `None` if none is on this machine.
    pub async fn open() -> Option<Self> {
        let program = ["/usr/bin/chromium", "/usr/bin/google-chrome"];
        let program = program.into_iter().find(|path| Path::new(path).exists());
        let Some(program) = program else {
            println!("SKIPPED: no Chromium on this machine");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let (to, from) = (folder.path().join("to"), folder.path().join("from"));
        for pipe in [&to, &from] {
            mkfifo(pipe, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        }
        let sender = OpenOptions::new().read_write(true).open_sender(&to).unwrap();
        let receiver = OpenOptions::new().read_write(true).open_receiver(&from).unwrap();
        let process = Command::new("sh")
            .args(["-c", "exec 3<\"$TO\" 4>\"$FROM\"; exec \"$@\"", "sh", program])
            .args(["--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-sync"])
            .args(["--disable-component-update", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .env("TO", &to)
            .env("FROM", &from)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut browser = Self {
            process,
            _folder: folder,
            to: sender,
            from: BufReader::new(receiver),
            session: None,
            last_id: 0,
            asked: Vec::new(),
            complaints: Vec::new(),
            loads: 0,
            place: String::new(),
            whole: String::new(),
        };
        browser.begin().await;
        Some(browser)
    }

    async fn begin(&mut self) {
        let page = self.call("Target.createTarget", json!({"url": "about:blank"})).await;
        let attach = json!({"targetId": page["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", attach).await;
        self.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({})).await;
        }
    }

    /// Calls a method of the protocol.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(END);
        self.to.write_all(&bytes).await.unwrap();
        loop {
            let mut answer = self.next(method).await;
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }

    /// The next message. Events are noted.
    async fn next(&mut self, waits_for: &str) -> Value {
        let mut bytes = Vec::new();
        let read = timeout(PATIENCE, self.from.read_until(END, &mut bytes)).await;
        read.unwrap_or_else(|_| panic!("the browser is silent about {waits_for}")).unwrap();
        bytes.pop();
        let message: Value = serde_json::from_slice(&bytes).unwrap();
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Page.loadEventFired" => {
                self.loads += 1;
                self.whole.clone_from(&self.place);
            }
            "Page.frameNavigated" if params["frame"]["parentId"].is_null() => {
                self.place = params["frame"]["url"].as_str().unwrap().to_owned();
            }
            "Network.requestWillBeSent" => {
                self.asked.push(params["request"]["url"].as_str().unwrap().to_owned());
            }
            "Log.entryAdded" if params["entry"]["level"] == "error" => {
                self.complaints.push(params["entry"]["text"].to_string());
            }
            "Runtime.exceptionThrown" => self.complaints.push(params.to_string()),
            _ => {}
        }
        message
    }

    /// Opens a page, and waits until it is whole.
    pub async fn go(&mut self, url: &str) {
        let before = self.loads;
        self.call("Page.navigate", json!({"url": url})).await;
        self.loaded_after(before, url).await;
    }

    async fn loaded_after(&mut self, before: usize, what: &str) {
        while self.loads == before {
            self.next(what).await;
        }
    }

    /// Waits until the browser, which goes on by itself, has come to this path.
    pub async fn arrive(&mut self, path: &str) {
        while !self.whole.ends_with(path) {
            self.next(path).await;
        }
    }

    /// Takes certificates that nobody has signed.
    pub async fn trust_any_certificate(&mut self) {
        self.call("Security.setIgnoreCertificateErrors", json!({"ignore": true})).await;
    }

    /// Waits for a frame of another site whose address ends so. Expressions then have their values
    /// in the frame.
    pub async fn enter_frame(&mut self, path: &str) {
        self.session = None;
        let search = async {
            loop {
                let targets = self.call("Target.getTargets", json!({})).await;
                let targets = targets["targetInfos"].as_array().unwrap();
                let is_frame = |target: &&Value| {
                    target["type"] == "iframe" && target["url"].as_str().unwrap().ends_with(path)
                };
                if let Some(frame) = targets.iter().find(is_frame) {
                    break frame["targetId"].clone();
                }
            }
        };
        let frame = timeout(PATIENCE, search).await;
        let frame = frame.unwrap_or_else(|_| panic!("no frame at {path}"));
        let attach = json!({"targetId": frame, "flatten": true});
        let attached = self.call("Target.attachToTarget", attach).await;
        self.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        let is_whole = "new Promise((done) => {
            document.readyState === 'complete' ? done() : addEventListener('load', done) })";
        self.value(is_whole).await;
    }

    /// The value of an expression in the page.
    pub async fn value(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true,
            "userGesture": true,
        });
        let mut result = self.call("Runtime.evaluate", params).await;
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// The text of the page.
    pub async fn text(&mut self) -> String {
        self.value("document.body.innerText").await.as_str().unwrap().to_owned()
    }

    /// Clicks the first element with this text among those of the selector, and waits for the page
    /// that it leads to.
    pub async fn click(&mut self, selector: &str, text: &str) {
        let (selector, text) = (json!(selector), json!(text));
        let before = self.loads;
        let found = self
            .value(&format!(
                "{{ const one = [...document.querySelectorAll({selector})]
                    .find((it) => it.textContent.includes({text}));
                   one?.click(); Boolean(one) }}"
            ))
            .await;
        assert_eq!(found, true, "no {selector} with {text} in {}", self.text().await);
        self.loaded_after(before, &text.to_string()).await;
    }

    /// Opens a part of the page that is folded.
    pub async fn unfold(&mut self, text: &str) {
        let text = json!(text);
        let found = self
            .value(&format!(
                "{{ const one = [...document.querySelectorAll('summary')]
                    .find((it) => it.textContent.includes({text}));
                   one?.click(); Boolean(one) }}"
            ))
            .await;
        assert_eq!(found, true, "nothing to unfold with {text}");
    }

    /// Writes into the field of this name, in the open form.
    pub async fn write(&mut self, name: &str, text: &str) {
        let (field, text) = (json!(format!("main [name={name}]")), json!(text));
        let found = self
            .value(&format!(
                "{{ const seen = [...document.querySelectorAll({field})]
                    .find((it) => it.checkVisibility());
                   if (seen) seen.value = {text}; Boolean(seen) }}"
            ))
            .await;
        assert_eq!(found, true, "no field {name} in {}", self.text().await);
    }

    /// Presses a key.
    pub async fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" && key.len() == 1 { key } else { "" };
            let mut params = json!({"type": kind, "key": key, "text": text});
            if key == "Enter" {
                params = json!({"type": kind, "key": key, "text": "\r",
                    "windowsVirtualKeyCode": 13});
            }
            self.call("Input.dispatchKeyEvent", params).await;
        }
    }

    /// Presses a key that leads to another page.
    pub async fn press_through(&mut self, key: &str) {
        let before = self.loads;
        self.press(key).await;
        self.loaded_after(before, key).await;
    }

    /// Chooses a theme and a width.
    pub async fn look(&mut self, theme: &str, width: u32) {
        let features = json!([{"name": "prefers-color-scheme", "value": theme}]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features })).await;
        let metrics = json!({
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// Lets pages run no script of their own.
    pub async fn without_scripts(&mut self) {
        let off = json!({"value": true});
        self.call("Emulation.setScriptExecutionDisabled", off).await;
    }

    /// A picture of the page, as PNG.
    pub async fn picture(&mut self) -> Vec<u8> {
        let taken = self.call("Page.captureScreenshot", json!({"format": "png"})).await;
        STANDARD.decode(taken["data"].as_str().unwrap()).unwrap()
    }

    /// Ends the browser.
    pub async fn close(mut self) {
        self.process.kill().await.unwrap();
    }
}
