//! The words of the portal in all languages. A word that is missing in one does not compile.

use domain::delivery::replay::ReplaySkip;
use domain::values::Lang;

/// Declares each word in English, French and Spanish.
macro_rules! words {
    ($($name:ident: $english:literal, $french:literal, $spanish:literal;)+) => {
        /// The words of one language.
        #[derive(Debug)]
        pub(crate) struct Words {
            pub(super) lang: Lang,
            $(pub(super) $name: &'static str,)+
        }

        static ENGLISH: Words = Words { lang: Lang::En, $($name: $english,)+ };
        static FRENCH: Words = Words { lang: Lang::Fr, $($name: $french,)+ };
        static SPANISH: Words = Words { lang: Lang::Es, $($name: $spanish,)+ };

        #[cfg(test)]
        impl Words {
            fn all(&self) -> Vec<&'static str> {
                vec![$(self.$name,)+]
            }
        }
    };
}

words! {
    portal: "Integrations", "Intégrations", "Integraciones";
    skip: "Skip to the content", "Aller au contenu", "Ir al contenido";
    home: "Overview", "Aperçu", "Resumen";
    keys: "API keys", "Clés d’API", "Claves de API";
    secret: "Signing secret", "Secret de signature", "Secreto de firma";
    hooks: "Subscriptions", "Abonnements", "Suscripciones";
    deliveries: "Deliveries", "Livraisons", "Entregas";
    steps: "Workflow steps", "Étapes de workflow", "Pasos de flujo";
    audit: "Audit log", "Journal d’audit", "Registro de auditoría";
    leave: "Sign out", "Se déconnecter", "Cerrar sesión";
    left: "You have signed out.", "Vous êtes déconnecté.", "Ha cerrado la sesión.";
    enter: "Continue", "Continuer", "Continuar";
    utc: "Times are UTC.", "Les heures sont en UTC.", "Las horas son UTC.";
    ends: "This session ends at", "Cette session se termine à", "Esta sesión termina a las";
    refused: "This is not possible", "Ce n’est pas possible", "No es posible";
    over: "This link or session is over, or you may not manage this firm. Open the page again from your account.",
        "Ce lien ou cette session a expiré, ou vous ne pouvez pas gérer cette entreprise. Rouvrez la page depuis votre compte.",
        "Este enlace o esta sesión ha terminado, o usted no puede gestionar esta empresa. Vuelva a abrir la página desde su cuenta.";
    strange: "This form did not come from a page of your session. Open the page again.",
        "Ce formulaire ne vient pas d’une page de votre session. Rouvrez la page.",
        "Este formulario no procede de una página de su sesión. Vuelva a abrir la página.";
    nothing: "There is no such thing here.", "Rien de tel ici.", "Aquí no hay nada así.";
    not_failed: "Only what failed can be sent again.",
        "Seul ce qui a échoué peut être renvoyé.",
        "Solo se puede reenviar lo que falló.";
    too_many_keys: "The firm has as many keys as it may have. Revoke one first.",
        "L’entreprise a déjà toutes les clés permises. Révoquez-en une d’abord.",
        "La empresa ya tiene todas las claves permitidas. Revoque una primero.";
    purged: "Its content is not kept any more, so it cannot be sent again.",
        "Son contenu n’est plus conservé, il ne peut donc pas être renvoyé.",
        "Su contenido ya no se guarda, por lo que no se puede reenviar.";
    hook_removed: "Its subscription was removed, so it cannot be sent again.",
        "Son abonnement a été supprimé, elle ne peut donc pas être renvoyée.",
        "Su suscripción se eliminó, por lo que no se puede reenviar.";
    erased: "Its response was erased, so it cannot be sent again.",
        "Sa réponse a été effacée, elle ne peut donc pas être renvoyée.",
        "Su respuesta se borró, por lo que no se puede reenviar.";
    under_way: "It is being sent already.", "Elle est déjà en cours d’envoi.", "Ya se está enviando.";
    key_made: "The key was made when this form was sent first. Nobody can show it again.",
        "La clé a été créée au premier envoi de ce formulaire. Personne ne pourra la réafficher.",
        "La clave se creó en el primer envío de este formulario. Nadie podrá mostrarla de nuevo.";
    secret_changed: "The secret was rotated since this form was opened. Show the secret instead.",
        "Le secret a été remplacé depuis l’ouverture de ce formulaire. Affichez plutôt le secret.",
        "El secreto se cambió desde que se abrió este formulario. Muestre el secreto.";
    unavailable: "The service cannot answer right now. Try again in a moment.",
        "Le service ne peut pas répondre pour l’instant. Réessayez dans un moment.",
        "El servicio no puede responder ahora. Inténtelo de nuevo en un momento.";
    invalid: "This was not accepted:", "Ceci n’a pas été accepté :", "Esto no se aceptó:";
    not_accepted: "A field is too long or has a form that is not accepted.",
        "Un champ est trop long ou d’une forme non acceptée.",
        "Un campo es demasiado largo o tiene una forma no admitida.";
    too_often: "There were too many requests. Try again in a minute.",
        "Il y a eu trop de demandes. Réessayez dans une minute.",
        "Hubo demasiadas peticiones. Inténtelo de nuevo en un minuto.";
    wrong_method: "This page is not opened like that.",
        "Cette page ne s’ouvre pas ainsi.",
        "Esta página no se abre así.";
    broken: "The service has a fault.", "Le service a un défaut.", "El servicio tiene un fallo.";
    missing: "A field is missing.", "Un champ manque.", "Falta un campo.";
    none: "none", "aucun", "ninguno";
    empty: "Nothing here.", "Rien ici.", "Nada aquí.";
    archived: "No longer listed: deliveries before",
        "Ne sont plus listées : les livraisons d’avant le",
        "Ya no se listan: entregas anteriores al";
    first_page: "First page", "Première page", "Primera página";
    next_page: "Next page", "Page suivante", "Página siguiente";
    pages: "Pages", "Pages", "Páginas";
    show: "Show", "Afficher", "Mostrar";
    any: "any", "tous", "todos";
    reason: "Reason, kept in the audit log", "Motif, conservé dans le journal d’audit",
        "Motivo, guardado en el registro de auditoría";
    commands: "Actions", "Actions", "Acciones";

    name: "Name", "Nom", "Nombre";
    prefix: "Starts with", "Commence par", "Empieza por";
    state: "State", "État", "Estado";
    created: "Created", "Création", "Creación";
    last_call: "Last call", "Dernier appel", "Última llamada";
    active: "active", "active", "activa";
    revoked: "revoked", "révoquée", "revocada";
    new_key: "New key", "Nouvelle clé", "Nueva clave";
    key_name: "Name of the key, such as the tool that uses it",
        "Nom de la clé, par exemple l’outil qui l’utilise",
        "Nombre de la clave, por ejemplo la herramienta que la usa";
    create_key: "Create the key", "Créer la clé", "Crear la clave";
    copy_key: "Copy the key now. Nobody can show it again.",
        "Copiez la clé maintenant. Personne ne pourra la réafficher.",
        "Copie la clave ahora. Nadie podrá mostrarla de nuevo.";
    active_keys: "Active keys", "Clés actives", "Claves activas";
    revoked_keys: "Revoked keys", "Clés révoquées", "Claves revocadas";
    member: "Member", "Membre", "Miembro";
    revoke: "Revoke the key", "Révoquer la clé", "Revocar la clave";
    goes_along: "These subscriptions are removed with the key:",
        "Ces abonnements sont supprimés avec la clé :",
        "Estas suscripciones se eliminan con la clave:";
    nothing_goes: "No live subscription goes with the key.",
        "Aucun abonnement actif ne part avec la clé.",
        "Ninguna suscripción activa se va con la clave.";
    write_prefix: "Write the start of the key, to be sure:",
        "Pour confirmer, écrivez le début de la clé :",
        "Para confirmar, escriba el comienzo de la clave:";
    wrong_prefix: "This is not the start of the key.", "Ce n’est pas le début de la clé.",
        "Este no es el comienzo de la clave.";

    secret_use: "Each delivery is signed with this secret. Receivers verify the signature with it.",
        "Chaque livraison est signée avec ce secret. Les récepteurs vérifient la signature avec lui.",
        "Cada entrega se firma con este secreto. Los receptores verifican la firma con él.";
    reveal: "Show the secret", "Afficher le secret", "Mostrar el secreto";
    a_minute: "This page shows the secret for a minute.",
        "Cette page affiche le secret pendant une minute.",
        "Esta página muestra el secreto durante un minuto.";
    since: "Signs since", "Signe depuis", "Firma desde";
    rotate: "Rotate the secret", "Remplacer le secret", "Cambiar el secreto";
    rotate_effect: "A new secret signs within a minute. Receivers refuse deliveries until they know it.",
        "Un nouveau secret signe en moins d’une minute. Les récepteurs refusent les livraisons tant qu’ils ne le connaissent pas.",
        "Un secreto nuevo firma en menos de un minuto. Los receptores rechazan entregas hasta que lo conocen.";
    rotate_sure: "I will give the new secret to all receivers.",
        "Je donnerai le nouveau secret à tous les récepteurs.",
        "Daré el secreto nuevo a todos los receptores.";
    rotated: "The new secret signs. For a minute, deliveries may still have the old signature.",
        "Le nouveau secret signe. Pendant une minute, des livraisons peuvent porter l’ancienne signature.",
        "El secreto nuevo firma. Durante un minuto, algunas entregas pueden llevar la firma antigua.";
    hide: "Hide the secret", "Masquer le secret", "Ocultar el secreto";

    live: "live", "actif", "activa";
    warned: "the next 410 removes it", "le prochain 410 le supprime", "el próximo 410 la elimina";
    removed: "removed", "supprimé", "eliminada";
    live_hooks: "Live subscriptions", "Abonnements actifs", "Suscripciones activas";
    removed_hooks: "Removed subscriptions", "Abonnements supprimés", "Suscripciones eliminadas";
    hook: "Subscription", "Abonnement", "Suscripción";
    trigger: "Event", "Événement", "Evento";
    target: "Target", "Cible", "Destino";
    form: "Form", "Formulaire", "Formulario";
    all_forms: "all forms", "tous les formulaires", "todos los formularios";
    key: "Key", "Clé", "Clave";
    health: "Arrived of the last 100", "Arrivées parmi les 100 dernières",
        "Llegadas de las últimas 100";
    last_arrival: "Last arrival", "Dernière arrivée", "Última llegada";
    waiting: "Waiting", "En attente", "En espera";
    why_removed: "Why it was removed", "Pourquoi il a été supprimé", "Por qué se eliminó";
    removed_at: "Removed", "Suppression", "Eliminación";
    decided: "Deliveries that decided it", "Livraisons décisives", "Entregas decisivas";
    test: "Send a test", "Envoyer un test", "Enviar una prueba";
    test_effect: "Sends a sample once to the target. No delivery is made.",
        "Envoie une fois un exemple à la cible. Aucune livraison n’est créée.",
        "Envía una vez un ejemplo al destino. No se crea ninguna entrega.";
    tested: "The test was sent", "Le test a été envoyé", "Se envió la prueba";
    show_target: "Show the whole target", "Afficher la cible complète",
        "Mostrar el destino completo";
    target_effect: "The look is an entry of the audit log.",
        "Cette consultation est une entrée du journal d’audit.",
        "Esta consulta es una entrada del registro de auditoría.";

    pending: "pending", "en attente", "pendiente";
    delivered: "delivered", "livrée", "entregada";
    failed: "failed", "échouée", "fallida";
    cancelled: "cancelled", "annulée", "cancelada";
    delivery: "Delivery", "Livraison", "Entrega";
    cause: "Cause", "Cause", "Causa";
    next_try: "Next try", "Prochain essai", "Próximo intento";
    response: "Response", "Réponse", "Respuesta";
    tries: "Tries", "Essais", "Intentos";
    number: "No.", "N°", "N.º";
    outcome: "Outcome", "Résultat", "Resultado";
    status: "Status", "Statut", "Código";
    error: "Error", "Erreur", "Error";
    duration: "Duration", "Durée", "Duración";
    from: "From", "Du", "Desde";
    until: "Until", "Au", "Hasta";
    replay: "Send again", "Renvoyer", "Reenviar";
    replay_effect: "Sends the same bytes once more, under the same id.",
        "Renvoie une fois les mêmes octets, sous le même identifiant.",
        "Reenvía una vez los mismos bytes, con el mismo identificador.";
    replayed: "It is sent again in a moment.", "Elle est renvoyée dans un instant.",
        "Se reenvía en un momento.";
    recent_failures: "Deliveries that failed last", "Dernières livraisons échouées",
        "Últimas entregas fallidas";

    run: "Run", "Exécution", "Ejecución";
    step: "Step", "Étape", "Paso";
    retry: "Try again", "Réessayer", "Reintentar";
    retry_effect: "Gives the failed step five new tries.",
        "Donne cinq nouveaux essais à l’étape échouée.",
        "Da cinco intentos nuevos al paso fallido.";
    retried: "The step is tried again.", "L’étape est réessayée.", "El paso se reintenta.";

    time: "Time", "Heure", "Hora";
    action: "Action", "Action", "Acción";
    actor: "By", "Par", "Por";
    subject: "About", "Objet", "Sobre";
    you: "you", "vous", "usted";
    without_looks: "Without looks", "Sans les consultations", "Sin consultas";
    with_looks: "With looks", "Avec les consultations", "Con consultas";
    key_revoked: "The key is revoked, and its subscriptions are removed.",
        "La clé est révoquée et ses abonnements sont supprimés.",
        "La clave está revocada y sus suscripciones se han eliminado.";
}

/// The words of a language.
pub(super) const fn words_in(lang: Lang) -> &'static Words {
    match lang {
        Lang::En => &ENGLISH,
        Lang::Fr => &FRENCH,
        Lang::Es => &SPANISH,
    }
}

impl Words {
    /// The sentence for a command that has been carried out.
    pub(super) fn done_sentence(&self, done: &str) -> Option<&'static str> {
        match done {
            "revoked" => Some(self.key_revoked),
            "replayed" => Some(self.replayed),
            "retried" => Some(self.retried),
            _ => None,
        }
    }

    /// Why a delivery is not sent again.
    pub(super) const fn why_skipped(&self, why: ReplaySkip) -> &'static str {
        match why {
            ReplaySkip::Delivered | ReplaySkip::Cancelled | ReplaySkip::NotSelected => {
                self.not_failed
            }
            ReplaySkip::Pending | ReplaySkip::Replaying => self.under_way,
            ReplaySkip::HookRemoved => self.hook_removed,
            ReplaySkip::SourceErased => self.erased,
            ReplaySkip::BodyPurged => self.purged,
        }
    }

    /// A state of a delivery, a subscription or a key.
    pub(super) fn state_of<'a>(&self, state: &'a str) -> &'a str {
        match state {
            "pending" => self.pending,
            "delivered" => self.delivered,
            "failed" => self.failed,
            "cancelled" => self.cancelled,
            "live" => self.live,
            "warned" => self.warned,
            "removed" => self.removed,
            "active" => self.active,
            "revoked" => self.revoked,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No word is empty.
    #[test]
    fn each_language_has_its_own_words() {
        for lang in Lang::ALL {
            let words = words_in(lang);
            assert_eq!(words.lang, lang);
            assert!(words.all().iter().all(|word| !word.trim().is_empty()));
        }
        let alike = |other: Lang| {
            let pairs = ENGLISH.all().into_iter().zip(words_in(other).all());
            pairs.filter(|(one, other)| one == other).count()
        };
        assert!(alike(Lang::Fr) < 12 && alike(Lang::Es) < 4);
    }
}
