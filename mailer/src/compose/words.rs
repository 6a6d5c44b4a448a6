//! The sentences of an invite in every language, with that language's quotes and spaces. No
//! sentence ends in a name, because a name may end in a full stop. No word changes its form before
//! a name.
//!
//! The layout is unknown here.

use domain::values::Lang;

/// The names in the sentences.
pub(super) struct LetterNames<'a> {
    /// The inviting firm.
    pub(super) firm: &'a str,
    /// The form's title; `None` if the title is not visible.
    pub(super) title: Option<&'a str>,
    /// The name in the greeting.
    pub(super) name: Option<&'a str>,
    /// The recipient's address.
    pub(super) to: &'a str,
}

/// The sentences of one invite.
pub(super) struct LetterWords {
    /// The language code, for attributes and headers.
    pub(super) code: &'static str,
    /// The mail's subject.
    pub(super) subject: String,
    /// The form's title.
    pub(super) title: String,
    /// The greeting.
    pub(super) hello: String,
    /// The purpose of the mail.
    pub(super) invitation: String,
    /// The line above the note.
    pub(super) note: String,
    /// The text on the button.
    pub(super) button: &'static str,
    /// The line above the link as text, beside a button.
    pub(super) copy: &'static str,
    /// The sender of the mail, and the reason why this person got it.
    pub(super) why: String,
    /// The text on the unsubscribe link.
    pub(super) leave: &'static str,
    /// The colon, with the spaces that the language needs.
    pub(super) colon: &'static str,
}

impl LetterWords {
    /// The sentences in one language.
    pub(super) fn new(lang: Lang, facts: &LetterNames<'_>) -> Self {
        match lang {
            Lang::En => english(facts),
            Lang::Fr => french(facts),
            Lang::Es => spanish(facts),
        }
    }
}

fn english(&LetterNames { firm, title, name, to }: &LetterNames<'_>) -> LetterWords {
    let title = title.unwrap_or("Form");
    LetterWords {
        code: Lang::En.code(),
        subject: format!("{firm} invites you to fill in “{title}”"),
        title: title.to_owned(),
        hello: name.map_or("Hello,".to_owned(), |name| format!("Hello {name},")),
        invitation: format!("{firm} invites you to fill in the form “{title}”."),
        note: format!("{firm} writes:"),
        button: "Open the form",
        copy: "If the button does not work, copy this address into your browser:",
        why: format!(
            "{firm} sent you this email. You are receiving it at {to} because {firm} would like \
             to have your answers."
        ),
        leave: "Stop receiving these emails",
        colon: ":",
    }
}

/// Guillemets and colons are set off by spaces that do not break.
fn french(&LetterNames { firm, title, name, to }: &LetterNames<'_>) -> LetterWords {
    let title = title.unwrap_or("Formulaire");
    LetterWords {
        code: Lang::Fr.code(),
        subject: format!("{firm} vous invite à remplir «\u{A0}{title}\u{A0}»"),
        title: title.to_owned(),
        hello: name.map_or("Bonjour,".to_owned(), |name| format!("Bonjour {name},")),
        invitation: format!("{firm} vous invite à remplir le formulaire «\u{A0}{title}\u{A0}»."),
        note: format!("{firm} vous écrit\u{A0}:"),
        button: "Ouvrir le formulaire",
        copy: "Si le bouton ne fonctionne pas, copiez cette adresse dans votre navigateur\u{A0}:",
        why: format!(
            "{firm} vous a envoyé cet e-mail. Vous le recevez à l’adresse {to} car {firm} \
             souhaite connaître vos réponses."
        ),
        leave: "Ne plus recevoir ces e-mails",
        colon: "\u{A0}:",
    }
}

/// The greeting ends in a colon, and a comma sets the name off.
fn spanish(&LetterNames { firm, title, name, to }: &LetterNames<'_>) -> LetterWords {
    let title = title.unwrap_or("Formulario");
    LetterWords {
        code: Lang::Es.code(),
        subject: format!("{firm} le invita a completar «{title}»"),
        title: title.to_owned(),
        hello: name.map_or("Hola:".to_owned(), |name| format!("Hola, {name}:")),
        invitation: format!("{firm} le invita a completar el formulario «{title}»."),
        note: format!("{firm} le escribe:"),
        button: "Abrir el formulario",
        copy: "Si el botón no funciona, copie esta dirección en su navegador:",
        why: format!(
            "{firm} le ha enviado este correo electrónico. Lo recibe en la dirección {to} porque \
             {firm} desea conocer sus respuestas."
        ),
        leave: "Dejar de recibir estos correos",
        colon: ":",
    }
}
