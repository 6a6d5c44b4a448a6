//! Code in several languages, one of which is shown. The choice needs no script: the style hides
//! the blocks of the other languages. An old browser shows all of them.

use maud::{Markup, html};

/// A language of a picker. The style knows each `id`.
#[derive(Clone, Copy)]
pub(super) struct PickedLanguage {
    id: &'static str,
    name: &'static str,
}

pub(super) const CURL: PickedLanguage = PickedLanguage { id: "curl", name: "curl" };
pub(super) const PYTHON: PickedLanguage = PickedLanguage { id: "python", name: "Python" };
pub(super) const NODE: PickedLanguage = PickedLanguage { id: "node", name: "Node.js" };
pub(super) const JAVA: PickedLanguage = PickedLanguage { id: "java", name: "Java" };
pub(super) const PHP: PickedLanguage = PickedLanguage { id: "php", name: "PHP" };
pub(super) const GO: PickedLanguage = PickedLanguage { id: "go", name: "Go" };

/// The choice, once per page. The first language is chosen.
pub(super) fn language_picker(languages: &[PickedLanguage]) -> Markup {
    html! {
        fieldset.pick {
            legend { "Show the code for" }
            @for (place, language) in languages.iter().enumerate() {
                label {
                    input type="radio" name="language" id={ "pick-" (language.id) }
                        checked[place == 0];
                    (language.name)
                }
            }
        }
    }
}

/// A block that is shown for one language.
pub(super) fn language_block(language: PickedLanguage, content: &Markup) -> Markup {
    html! {
        div class={ "only " (language.id) } {
            p.note { (language.name) }
            (content)
        }
    }
}
