//! The programs that the guides show, from `docs/receivers`, `docs/recipes` and `docs/quickstart`.
//! A page shows a file, or a part of a file, so a reader sees the lines that the tests run.

/// A program that is served to read and to download.
#[derive(Clone, Copy, Debug)]
pub(super) struct CodeFile {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

macro_rules! code_file {
    ($folder:literal, $name:literal) => {
        CodeFile {
            name: $name,
            text: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../docs/",
                $folder,
                "/",
                $name
            )),
        }
    };
}

impl CodeFile {
    pub(super) const PYTHON: Self = code_file!("receivers", "receiver.py");
    pub(super) const NODE: Self = code_file!("receivers", "receiver.mjs");
    pub(super) const JAVA: Self = code_file!("receivers", "Receiver.java");
    pub(super) const PHP: Self = code_file!("receivers", "receiver.php");
    pub(super) const GO: Self = code_file!("receivers", "receiver.go");
    pub(super) const EXPRESS: Self = code_file!("recipes", "express.mjs");
    pub(super) const FASTAPI: Self = code_file!("recipes", "fastapi_app.py");
    pub(super) const RAILS: Self = code_file!("recipes", "hooks_controller.rb");
    pub(super) const STRIPE_NODE: Self = code_file!("recipes", "with_stripe.mjs");
    pub(super) const STRIPE_PYTHON: Self = code_file!("recipes", "with_stripe.py");
    pub(super) const CALLS_CURL: Self = code_file!("quickstart", "quickstart.sh");
    pub(super) const CALLS_PYTHON: Self = code_file!("quickstart", "quickstart.py");
    pub(super) const CALLS_NODE: Self = code_file!("quickstart", "quickstart.mjs");

    pub(super) const ALL: [Self; 13] = [
        Self::PYTHON,
        Self::NODE,
        Self::JAVA,
        Self::PHP,
        Self::GO,
        Self::EXPRESS,
        Self::FASTAPI,
        Self::RAILS,
        Self::STRIPE_NODE,
        Self::STRIPE_PYTHON,
        Self::CALLS_CURL,
        Self::CALLS_PYTHON,
        Self::CALLS_NODE,
    ];

    pub(super) fn path(self) -> String {
        format!("/docs/code/{}", self.name)
    }

    /// The function `verify` with its comment. It contains no blank line.
    pub(super) fn verify_function(self) -> &'static str {
        let paragraphs = self.text.split("\n\n");
        let function = paragraphs.filter(|lines| lines.contains("verify(")).find(|lines| {
            let first = lines.trim_start().lines().next().unwrap_or_default();
            first.starts_with("/**") || first.starts_with("//") || first.starts_with("def ")
        });
        function.unwrap_or_default().trim_start_matches('\n')
    }

    /// The lines before the first step, without the comment at the top.
    pub(super) fn preamble(self) -> &'static str {
        let before = self.text.split_once(&self.step_marker(1)).map_or("", |(before, _)| before);
        before.split_once("\n\n").map_or("", |(_, rest)| rest.trim())
    }

    /// The lines below a comment such as `# 2. List the triggers`.
    pub(super) fn step_lines(self, number: usize) -> &'static str {
        let Some((_, from)) = self.text.split_once(&self.step_marker(number)) else { return "" };
        let step = from.split_once(&self.step_marker(number + 1)).map_or(from, |(step, _)| step);
        step.split_once('\n').map_or("", |(_, lines)| lines.trim())
    }

    fn step_marker(self, number: usize) -> String {
        let comment = if self.name.ends_with(".mjs") { "//" } else { "#" };
        format!("\n{comment} {number}. ")
    }
}
