//! Commands of `firmforms` that tell more about an object.

use uuid::Uuid;

/// The kinds of objects that commands of their own tell about.
pub const KINDS: [&str; 12] = [
    "firm", "member", "form", "key", "hook", "delivery", "replay", "pause", "token", "receiver",
    "event", "entry",
];

/// Commands that tell more about an object of this kind.
#[must_use]
pub fn where_to_look(kind: &str, id: &str, firm_id: Option<Uuid>) -> Vec<String> {
    let firm = firm_id.map_or_else(String::new, |firm_id| format!(" --firm {firm_id}"));
    let commands: &[&str] = match kind {
        "firm" => &["members list --firm {id}", "keys list --firm {id}", "hooks list --firm {id}"],
        "member" => &["access{firm}"],
        "form" => &["forms list{firm}"],
        "key" => &["keys why {id}"],
        "hook" => &["hooks why {id}", "deliveries list{firm} --hook {id}"],
        "delivery" => &["deliveries why {id}", "deliveries show{firm} {id}"],
        "replay" => &["replay show {id}"],
        "pause" => &["deliveries paused"],
        "token" => &["tokens list"],
        "receiver" => &["receivers --host {id}"],
        "event" => &["events show {id}"],
        "entry" => &["audit list{firm}"],
        _ => &["events of {id}"],
    };
    let filled = |command: &&str| {
        format!("firmforms {}", command.replace("{id}", id).replace("{firm}", &firm))
    };
    commands.iter().map(filled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_names_its_further_commands() {
        let firm_id = Uuid::from_u128(1);
        assert_eq!(where_to_look("hook", "X", Some(firm_id))[0], "firmforms hooks why X");
        let member = where_to_look("member", "X", Some(firm_id));
        assert_eq!(member, [format!("firmforms access --firm {firm_id}")]);
        assert_eq!(where_to_look("occurrence", "X", None), ["firmforms events of X"]);
    }
}
