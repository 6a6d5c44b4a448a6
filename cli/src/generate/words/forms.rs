//! What forms ask.

/// A form as a firm makes it.
#[derive(Debug)]
pub(in crate::generate) struct Template {
    pub(in crate::generate) title: &'static str,
    pub(in crate::generate) slug: &'static str,
    pub(in crate::generate) questions: &'static [Question],
    pub(in crate::generate) endings: &'static [&'static str],
}

/// A question, and what answers it.
#[derive(Debug)]
pub(in crate::generate) struct Question {
    pub(in crate::generate) id: &'static str,
    pub(in crate::generate) words: &'static str,
    pub(in crate::generate) kind: Kind,
}

/// What answers a question.
#[derive(Debug, Clone, Copy)]
pub(in crate::generate) enum Kind {
    /// Name, address, phone number and company.
    Contact,
    /// One sentence.
    Short,
    /// Some sentences.
    Long,
    /// One or more of these.
    Choice(&'static [&'static str]),
    /// Up to this many.
    Number(u64),
    /// A day.
    Date,
}

impl Kind {
    pub(in crate::generate) const fn name(self) -> &'static str {
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

/// A hidden field, and what links give it.
#[derive(Debug)]
pub(in crate::generate) struct Hidden {
    pub(in crate::generate) key: &'static str,
    pub(in crate::generate) label: &'static str,
    pub(in crate::generate) values: &'static [&'static str],
}

pub(in crate::generate) static HIDDEN: [Hidden; 6] = [
    Hidden {
        key: "referrer", label: "Referred by", values: &["partner", "Jürgen W.", "a friend"]
    },
    Hidden {
        key: "office", label: "Nearest office", values: &["Leeds", "Saint-Étienne", "Köln"]
    },
    Hidden { key: "client_ref", label: "Client reference", values: &["ETX-0203", "0007", "#19/b"] },
    Hidden { key: "dossier", label: "Numéro de dossier", values: &["2026/114", "n° 8"] },
    Hidden { key: "campaign_code", label: "Campaign code", values: &["RD26", "été", "%20"] },
    Hidden { key: "sprache", label: "Sprache", values: &["DE", "EN", "中文"] },
];

const fn ask(id: &'static str, words: &'static str, kind: Kind) -> Question {
    Question { id, words, kind }
}

pub(in crate::generate) const ENGLISH: &[Template] = &[
    Template {
        title: "New client enquiry",
        slug: "new-client-enquiry",
        questions: &[
            ask("contact", "How can we reach you?", Kind::Contact),
            ask("activity", "What does your business do?", Kind::Short),
            ask(
                "structure",
                "How is it set up?",
                Kind::Choice(&["Sole trader", "Limited company"]),
            ),
            ask("turnover", "Turnover in the last twelve months (£)", Kind::Number(4_000_000)),
            ask("services", "What do you need?", Kind::Choice(&["Bookkeeping", "VAT", "Payroll"])),
            ask("start", "When would you like us to start?", Kind::Date),
            ask("message", "Anything else we should know?", Kind::Long),
        ],
        endings: &["book_a_call", "thank_you"],
    },
    Template {
        title: "R&D tax credit quiz",
        slug: "rd-tax-relief",
        questions: &[
            ask("project", "Name of the project", Kind::Short),
            ask("team", "How many people worked on it?", Kind::Number(60)),
            ask("spend", "Roughly how much was spent on it (£)?", Kind::Number(900_000)),
            ask("claimed", "Have you claimed before?", Kind::Choice(&["Yes", "No", "Not sure"])),
            ask("uncertainty", "What could nobody readily work out?", Kind::Long),
            ask("contact", "Where should we send the result?", Kind::Contact),
        ],
        endings: &["eligible", "not_eligible", "perhaps"],
    },
];

pub(in crate::generate) const FRENCH: &[Template] = &[
    Template {
        title: "Première consultation",
        slug: "premiere-consultation",
        questions: &[
            ask("contact", "Vos coordonnées", Kind::Contact),
            ask("matter", "Quel domaine ?", Kind::Choice(&["Impayés", "Voisinage", "Famille"])),
            ask("opponent", "Qui est la partie adverse ?", Kind::Short),
            ask("deadline", "Y a-t-il une échéance ?", Kind::Date),
            ask("urgency", "À quel point est-ce urgent, de 1 à 5 ?", Kind::Number(5)),
            ask("summary", "Racontez-nous la situation", Kind::Long),
        ],
        endings: &["rappel_48h", "orientation"],
    },
    Template {
        title: "Litige du travail",
        slug: "litige-du-travail",
        questions: &[
            ask("employer", "Votre employeur", Kind::Short),
            ask("hired", "Date d’embauche", Kind::Date),
            ask("salary", "Salaire brut mensuel (€)", Kind::Number(9_000)),
            ask("facts", "Décrivez les faits, dans l’ordre", Kind::Long),
            ask("contact", "Vos coordonnées", Kind::Contact),
        ],
        endings: &["default"],
    },
];

pub(in crate::generate) const GERMAN: &[Template] = &[
    Template {
        title: "Erstgespräch",
        slug: "erstgespraech",
        questions: &[
            ask("kontakt", "Wie erreichen wir Sie?", Kind::Contact),
            ask("form", "Welche Rechtsform?", Kind::Choice(&["GmbH", "GbR", "Einzelunternehmen"])),
            ask("umsatz", "Jahresumsatz (€)", Kind::Number(3_000_000)),
            ask("frist", "Gibt es eine Frist?", Kind::Date),
            ask("anliegen", "Worum geht es?", Kind::Long),
        ],
        endings: &["termin", "danke"],
    },
    Template {
        title: "Förderung prüfen – „Digital 2026“",
        slug: "foerderung",
        questions: &[
            ask("vorhaben", "Ihr Vorhaben in einem Satz", Kind::Short),
            ask("kosten", "Geplante Kosten (€)", Kind::Number(250_000)),
            ask("kontakt", "Ihre Kontaktdaten", Kind::Contact),
        ],
        endings: &["foerderfaehig", "nicht_foerderfaehig"],
    },
];

pub(in crate::generate) const SPANISH: &[Template] = &[
    Template {
        title: "Herencias y sucesiones",
        slug: "herencias",
        questions: &[
            ask("contact", "Sus datos de contacto", Kind::Contact),
            ask("heirs", "Número de herederos", Kind::Number(12)),
            ask("abroad", "¿Hay bienes en el extranjero?", Kind::Choice(&["Sí", "No"])),
            ask("since", "Fecha del fallecimiento", Kind::Date),
            ask("assets", "¿En qué consiste el patrimonio?", Kind::Long),
        ],
        endings: &["cita", "default"],
    },
    Template {
        title: "¿Autónomo o sociedad?",
        slug: "autonomo-o-sociedad",
        questions: &[
            ask("oficio", "¿A qué se dedica?", Kind::Short),
            ask("ingresos", "Ingresos previstos (€)", Kind::Number(200_000)),
            ask("dudas", "Sus dudas", Kind::Long),
            ask("contact", "¿Adónde enviamos el resultado?", Kind::Contact),
        ],
        endings: &["autonomo", "sociedad", "hablemos"],
    },
];
