//! The questions of forms.

/// A form that a firm makes.
#[derive(Debug)]
pub(crate) struct FormTemplate {
    pub(crate) title: &'static str,
    pub(crate) slug: &'static str,
    pub(crate) questions: &'static [FormQuestion],
    pub(crate) endings: &'static [&'static str],
}

/// A question, with its kind of answer.
#[derive(Debug)]
pub(crate) struct FormQuestion {
    pub(crate) id: &'static str,
    pub(crate) words: &'static str,
    pub(crate) kind: QuestionKind,
}

/// The kind of answer to a question.
#[derive(Debug, Clone, Copy)]
pub(crate) enum QuestionKind {
    /// Name, address, phone number and company.
    Contact,
    /// One sentence.
    Short,
    /// Some sentences.
    Long,
    /// One or more of these choices.
    Choice(&'static [&'static str]),
    /// A number up to this one.
    Number(u64),
    /// A day.
    Date,
}

impl QuestionKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Contact => "contact_group",
            Self::Short => "short_text",
            Self::Long => "long_text",
            Self::Choice(_) => "choice",
            Self::Number(_) => "number",
            Self::Date => "date",
        }
    }
}

/// A hidden field, with the values that links give it.
#[derive(Debug)]
pub(crate) struct HiddenFieldTemplate {
    pub(crate) key: &'static str,
    pub(crate) label: &'static str,
    pub(crate) values: &'static [&'static str],
}

pub(crate) static HIDDEN_FIELDS: [HiddenFieldTemplate; 6] = [
    HiddenFieldTemplate {
        key: "referrer",
        label: "Referred by",
        values: &["partner", "Jürgen W.", "a friend"],
    },
    HiddenFieldTemplate {
        key: "office",
        label: "Nearest office",
        values: &["Leeds", "Saint-Étienne", "Köln"],
    },
    HiddenFieldTemplate {
        key: "client_ref",
        label: "Client reference",
        values: &["ETX-0203", "0007", "#19/b"],
    },
    HiddenFieldTemplate {
        key: "dossier",
        label: "Numéro de dossier",
        values: &["2026/114", "n° 8"],
    },
    HiddenFieldTemplate {
        key: "campaign_code",
        label: "Campaign code",
        values: &["RD26", "été", "%20"],
    },
    HiddenFieldTemplate { key: "sprache", label: "Sprache", values: &["DE", "EN", "中文"] },
];

const fn form_question(id: &'static str, words: &'static str, kind: QuestionKind) -> FormQuestion {
    FormQuestion { id, words, kind }
}

pub(crate) const ENGLISH: &[FormTemplate] = &[
    FormTemplate {
        title: "New client enquiry",
        slug: "new-client-enquiry",
        questions: &[
            form_question("contact", "How can we reach you?", QuestionKind::Contact),
            form_question("activity", "What does your business do?", QuestionKind::Short),
            form_question(
                "structure",
                "How is it set up?",
                QuestionKind::Choice(&["Sole trader", "Limited company"]),
            ),
            form_question(
                "turnover",
                "Turnover in the last twelve months (£)",
                QuestionKind::Number(4_000_000),
            ),
            form_question(
                "services",
                "What do you need?",
                QuestionKind::Choice(&["Bookkeeping", "VAT", "Payroll"]),
            ),
            form_question("start", "When would you like us to start?", QuestionKind::Date),
            form_question("message", "Anything else we should know?", QuestionKind::Long),
        ],
        endings: &["book_a_call", "thank_you"],
    },
    FormTemplate {
        title: "R&D tax credit quiz",
        slug: "rd-tax-relief",
        questions: &[
            form_question("project", "Name of the project", QuestionKind::Short),
            form_question("team", "How many people worked on it?", QuestionKind::Number(60)),
            form_question(
                "spend",
                "Roughly how much was spent on it (£)?",
                QuestionKind::Number(900_000),
            ),
            form_question(
                "claimed",
                "Have you claimed before?",
                QuestionKind::Choice(&["Yes", "No", "Not sure"]),
            ),
            form_question("uncertainty", "What could nobody readily work out?", QuestionKind::Long),
            form_question("contact", "Where should we send the result?", QuestionKind::Contact),
        ],
        endings: &["eligible", "not_eligible", "perhaps"],
    },
];

pub(crate) const FRENCH: &[FormTemplate] = &[
    FormTemplate {
        title: "Première consultation",
        slug: "premiere-consultation",
        questions: &[
            form_question("contact", "Vos coordonnées", QuestionKind::Contact),
            form_question(
                "matter",
                "Quel domaine ?",
                QuestionKind::Choice(&["Impayés", "Voisinage", "Famille"]),
            ),
            form_question("opponent", "Qui est la partie adverse ?", QuestionKind::Short),
            form_question("deadline", "Y a-t-il une échéance ?", QuestionKind::Date),
            form_question(
                "urgency",
                "À quel point est-ce urgent, de 1 à 5 ?",
                QuestionKind::Number(5),
            ),
            form_question("summary", "Racontez-nous la situation", QuestionKind::Long),
        ],
        endings: &["rappel_48h", "orientation"],
    },
    FormTemplate {
        title: "Litige du travail",
        slug: "litige-du-travail",
        questions: &[
            form_question("employer", "Votre employeur", QuestionKind::Short),
            form_question("hired", "Date d’embauche", QuestionKind::Date),
            form_question("salary", "Salaire brut mensuel (€)", QuestionKind::Number(9_000)),
            form_question("facts", "Décrivez les faits, dans l’ordre", QuestionKind::Long),
            form_question("contact", "Vos coordonnées", QuestionKind::Contact),
        ],
        endings: &["default"],
    },
];

pub(crate) const GERMAN: &[FormTemplate] = &[
    FormTemplate {
        title: "Erstgespräch",
        slug: "erstgespraech",
        questions: &[
            form_question("kontakt", "Wie erreichen wir Sie?", QuestionKind::Contact),
            form_question(
                "form",
                "Welche Rechtsform?",
                QuestionKind::Choice(&["GmbH", "GbR", "Einzelunternehmen"]),
            ),
            form_question("umsatz", "Jahresumsatz (€)", QuestionKind::Number(3_000_000)),
            form_question("frist", "Gibt es eine Frist?", QuestionKind::Date),
            form_question("anliegen", "Worum geht es?", QuestionKind::Long),
        ],
        endings: &["termin", "danke"],
    },
    FormTemplate {
        title: "Förderung prüfen – „Digital 2026“",
        slug: "foerderung",
        questions: &[
            form_question("vorhaben", "Ihr Vorhaben in einem Satz", QuestionKind::Short),
            form_question("kosten", "Geplante Kosten (€)", QuestionKind::Number(250_000)),
            form_question("kontakt", "Ihre Kontaktdaten", QuestionKind::Contact),
        ],
        endings: &["foerderfaehig", "nicht_foerderfaehig"],
    },
];

pub(crate) const SPANISH: &[FormTemplate] = &[
    FormTemplate {
        title: "Herencias y sucesiones",
        slug: "herencias",
        questions: &[
            form_question("contact", "Sus datos de contacto", QuestionKind::Contact),
            form_question("heirs", "Número de herederos", QuestionKind::Number(12)),
            form_question(
                "abroad",
                "¿Hay bienes en el extranjero?",
                QuestionKind::Choice(&["Sí", "No"]),
            ),
            form_question("since", "Fecha del fallecimiento", QuestionKind::Date),
            form_question("assets", "¿En qué consiste el patrimonio?", QuestionKind::Long),
        ],
        endings: &["cita", "default"],
    },
    FormTemplate {
        title: "¿Autónomo o sociedad?",
        slug: "autonomo-o-sociedad",
        questions: &[
            form_question("oficio", "¿A qué se dedica?", QuestionKind::Short),
            form_question("ingresos", "Ingresos previstos (€)", QuestionKind::Number(200_000)),
            form_question("dudas", "Sus dudas", QuestionKind::Long),
            form_question("contact", "¿Adónde enviamos el resultado?", QuestionKind::Contact),
        ],
        endings: &["autonomo", "sociedad", "hablemos"],
    },
];
