//! The sentences of a notice in every language. The layout is unknown here.

use domain::notice::{NoticeFacts, NoticeKind};
use domain::values::Lang;

/// The sentences of one notice.
pub(super) struct NoticeWords {
    pub(super) code: &'static str,
    pub(super) subject: String,
    pub(super) title: &'static str,
    pub(super) hello: &'static str,
    /// The sentence about the event.
    pub(super) happened: String,
    /// The advice.
    pub(super) advice: &'static str,
    pub(super) button: &'static str,
    /// The reason for the mail, and the way to switch notices off.
    pub(super) why: String,
    pub(super) labels: NoticeLabels,
    pub(super) colon: &'static str,
}

/// The words before facts.
pub(super) struct NoticeLabels {
    pub(super) subscription: &'static str,
    pub(super) more: &'static str,
    pub(super) key: &'static str,
    pub(super) when: &'static str,
    pub(super) since: &'static str,
    pub(super) failures: &'static str,
    pub(super) answer: &'static str,
}

/// Title, event and advice of a kind.
struct KindWords {
    title: &'static str,
    happened: &'static str,
    advice: &'static str,
}

impl NoticeWords {
    pub(super) fn new(lang: Lang, facts: &NoticeFacts, firm: &str) -> Self {
        match lang {
            Lang::En => english(facts, firm),
            Lang::Fr => french(facts, firm),
            Lang::Es => spanish(facts, firm),
        }
    }
}

fn english(facts: &NoticeFacts, firm: &str) -> NoticeWords {
    let KindWords { title, happened, advice } = english_kind(facts);
    NoticeWords {
        code: Lang::En.code(),
        subject: format!("{firm}: {title}"),
        title,
        hello: "Hello,",
        happened: happened.to_owned(),
        advice,
        button: "Open the integrations screen",
        why: format!(
            "{firm} gets this email because notices about its integrations are switched on. They \
             can be switched off in the integrations settings."
        ),
        labels: NoticeLabels {
            subscription: "Subscription",
            more: "More subscriptions",
            key: "API key",
            when: "When",
            since: "No success since",
            failures: "Failed attempts",
            answer: "Answer",
        },
        colon: ":",
    }
}

fn english_kind(facts: &NoticeFacts) -> KindWords {
    match (facts.kind, facts.reason.as_deref()) {
        (NoticeKind::Warned, _) => KindWords {
            title: "A webhook subscription may be removed",
            happened: "The receiver of a webhook subscription answered 410 Gone.",
            advice: "A second 410 in a row removes the subscription. If you still need it, make the \
                     receiver answer 200 again.",
        },
        (NoticeKind::Failing, _) => KindWords {
            title: "A webhook subscription is failing",
            happened: "No delivery to a webhook subscription has succeeded for 24 hours.",
            advice: "Check that the receiver is reachable and answers 2xx within 10 seconds. Failed \
                     deliveries can be sent again on request.",
        },
        (NoticeKind::Recovered, _) => KindWords {
            title: "A webhook subscription works again",
            happened: "A delivery to a webhook subscription has succeeded again.",
            advice: "There is nothing to do. Ask for a replay if earlier deliveries are missing.",
        },
        (NoticeKind::Removed, Some("target_gone")) => KindWords {
            title: "A webhook subscription was removed",
            happened: "The receiver answered 410 Gone to two deliveries in a row, so the \
                       subscription was removed.",
            advice: "If you still need the subscription, make the receiver answer 200 and connect \
                     it again.",
        },
        (NoticeKind::Removed, Some("firm_closed")) => KindWords {
            title: "All webhook subscriptions were removed",
            happened: "The account was closed, so its webhook subscriptions were removed.",
            advice: "There is nothing to do.",
        },
        (NoticeKind::Removed, _) => KindWords {
            title: "A webhook subscription was removed",
            happened: "A webhook subscription was deleted by a call with its API key.",
            advice: "If nobody of your firm did this, revoke the key and connect again.",
        },
        (NoticeKind::KeyRevoked, Some("member_not_manager")) => KindWords {
            title: "An API key was revoked",
            happened: "An API key was revoked because its creator no longer manages integrations. \
                       Any webhook subscriptions that it had were removed with it.",
            advice: "Make a new key if you still need these integrations, and connect them again.",
        },
        (NoticeKind::KeyRevoked, _) => KindWords {
            title: "An API key was revoked",
            happened: "An API key was revoked on request. Any webhook subscriptions that it had \
                       were removed with it.",
            advice: "Make a new key if you still need these integrations, and connect them again.",
        },
    }
}

fn french(facts: &NoticeFacts, firm: &str) -> NoticeWords {
    let KindWords { title, happened, advice } = french_kind(facts);
    NoticeWords {
        code: Lang::Fr.code(),
        subject: format!("{firm}\u{A0}: {title}"),
        title,
        hello: "Bonjour,",
        happened: happened.to_owned(),
        advice,
        button: "Ouvrir l’écran des intégrations",
        why: format!(
            "{firm} reçoit cet e-mail car les avis sur ses intégrations sont activés. Ils se \
             désactivent dans les réglages des intégrations."
        ),
        labels: NoticeLabels {
            subscription: "Abonnement",
            more: "Autres abonnements",
            key: "Clé d’API",
            when: "Date",
            since: "Aucun succès depuis",
            failures: "Tentatives échouées",
            answer: "Réponse",
        },
        colon: "\u{A0}:",
    }
}

fn french_kind(facts: &NoticeFacts) -> KindWords {
    match (facts.kind, facts.reason.as_deref()) {
        (NoticeKind::Warned, _) => KindWords {
            title: "Un abonnement webhook risque d’être supprimé",
            happened: "Le destinataire d’un abonnement webhook a répondu 410 Gone.",
            advice: "Un deuxième 410 de suite supprime l’abonnement. Si vous en avez encore besoin, \
                     faites en sorte que le destinataire réponde de nouveau 200.",
        },
        (NoticeKind::Failing, _) => KindWords {
            title: "Un abonnement webhook est en échec",
            happened: "Aucune livraison à un abonnement webhook n’a réussi depuis 24 heures.",
            advice: "Vérifiez que le destinataire est joignable et répond 2xx en moins de 10 \
                     secondes. Les livraisons échouées peuvent être renvoyées sur demande.",
        },
        (NoticeKind::Recovered, _) => KindWords {
            title: "Un abonnement webhook fonctionne de nouveau",
            happened: "Une livraison à un abonnement webhook a de nouveau réussi.",
            advice: "Il n’y a rien à faire. Demandez un renvoi si des livraisons manquent.",
        },
        (NoticeKind::Removed, Some("target_gone")) => KindWords {
            title: "Un abonnement webhook a été supprimé",
            happened: "Le destinataire a répondu 410 Gone à deux livraisons de suite\u{A0}: \
                       l’abonnement a été supprimé.",
            advice: "Si vous avez encore besoin de l’abonnement, faites répondre 200 au destinataire \
                     et reconnectez-le.",
        },
        (NoticeKind::Removed, Some("firm_closed")) => KindWords {
            title: "Tous les abonnements webhook ont été supprimés",
            happened: "Le compte a été fermé\u{A0}: ses abonnements webhook ont été supprimés.",
            advice: "Il n’y a rien à faire.",
        },
        (NoticeKind::Removed, _) => KindWords {
            title: "Un abonnement webhook a été supprimé",
            happened: "Un abonnement webhook a été supprimé par un appel avec sa clé d’API.",
            advice: "Si personne chez vous ne l’a fait, révoquez la clé et reconnectez-vous.",
        },
        (NoticeKind::KeyRevoked, Some("member_not_manager")) => KindWords {
            title: "Une clé d’API a été révoquée",
            happened: "Une clé d’API a été révoquée car la personne qui l’a créée ne gère plus les \
                       intégrations. Ses abonnements webhook éventuels ont été supprimés avec elle.",
            advice: "Créez une nouvelle clé si vous avez encore besoin de ces intégrations, et \
                     reconnectez-les.",
        },
        (NoticeKind::KeyRevoked, _) => KindWords {
            title: "Une clé d’API a été révoquée",
            happened: "Une clé d’API a été révoquée sur demande. Ses abonnements webhook éventuels \
                       ont été supprimés avec elle.",
            advice: "Créez une nouvelle clé si vous avez encore besoin de ces intégrations, et \
                     reconnectez-les.",
        },
    }
}

fn spanish(facts: &NoticeFacts, firm: &str) -> NoticeWords {
    let KindWords { title, happened, advice } = spanish_kind(facts);
    NoticeWords {
        code: Lang::Es.code(),
        subject: format!("{firm}: {title}"),
        title,
        hello: "Hola:",
        happened: happened.to_owned(),
        advice,
        button: "Abrir la pantalla de integraciones",
        why: format!(
            "{firm} recibe este correo porque los avisos sobre sus integraciones están activados. \
             Se pueden desactivar en los ajustes de integraciones."
        ),
        labels: NoticeLabels {
            subscription: "Suscripción",
            more: "Más suscripciones",
            key: "Clave de API",
            when: "Fecha",
            since: "Sin éxito desde",
            failures: "Intentos fallidos",
            answer: "Respuesta",
        },
        colon: ":",
    }
}

fn spanish_kind(facts: &NoticeFacts) -> KindWords {
    match (facts.kind, facts.reason.as_deref()) {
        (NoticeKind::Warned, _) => KindWords {
            title: "Una suscripción webhook puede eliminarse",
            happened: "El receptor de una suscripción webhook respondió 410 Gone.",
            advice: "Un segundo 410 seguido elimina la suscripción. Si aún la necesita, haga que el \
                     receptor vuelva a responder 200.",
        },
        (NoticeKind::Failing, _) => KindWords {
            title: "Una suscripción webhook está fallando",
            happened: "Ninguna entrega a una suscripción webhook ha tenido éxito en 24 horas.",
            advice: "Compruebe que el receptor está accesible y responde 2xx en 10 segundos. Las \
                     entregas fallidas se pueden volver a enviar si lo pide.",
        },
        (NoticeKind::Recovered, _) => KindWords {
            title: "Una suscripción webhook vuelve a funcionar",
            happened: "Una entrega a una suscripción webhook ha vuelto a tener éxito.",
            advice: "No hay nada que hacer. Pida un reenvío si faltan entregas anteriores.",
        },
        (NoticeKind::Removed, Some("target_gone")) => KindWords {
            title: "Se eliminó una suscripción webhook",
            happened: "El receptor respondió 410 Gone a dos entregas seguidas, así que se eliminó \
                       la suscripción.",
            advice: "Si aún necesita la suscripción, haga que el receptor responda 200 y vuelva a \
                     conectarla.",
        },
        (NoticeKind::Removed, Some("firm_closed")) => KindWords {
            title: "Se eliminaron todas las suscripciones webhook",
            happened: "La cuenta se cerró, así que se eliminaron sus suscripciones webhook.",
            advice: "No hay nada que hacer.",
        },
        (NoticeKind::Removed, _) => KindWords {
            title: "Se eliminó una suscripción webhook",
            happened: "Una llamada con su clave de API eliminó una suscripción webhook.",
            advice: "Si nadie de su empresa lo hizo, revoque la clave y vuelva a conectar.",
        },
        (NoticeKind::KeyRevoked, Some("member_not_manager")) => KindWords {
            title: "Se revocó una clave de API",
            happened: "Se revocó una clave de API porque su creador ya no gestiona las \
                       integraciones. Si tenía suscripciones webhook, se eliminaron con ella.",
            advice: "Cree una clave nueva si aún necesita estas integraciones y vuelva a \
                     conectarlas.",
        },
        (NoticeKind::KeyRevoked, _) => KindWords {
            title: "Se revocó una clave de API",
            happened: "Se revocó una clave de API a petición. Si tenía suscripciones webhook, \
                       se eliminaron con ella.",
            advice: "Cree una clave nueva si aún necesita estas integraciones y vuelva a \
                     conectarlas.",
        },
    }
}
