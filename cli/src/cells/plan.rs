//! The file of cells: the router's addresses, and the servers of each cell.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use domain::access::Cell;
use serde::Deserialize;

/// The file, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CellPlan {
    /// The address of the public door.
    pub(super) public: SocketAddr,
    /// The address of the internal door.
    pub(super) internal: SocketAddr,
    /// The certificate chain of the public door with its private key, in one PEM file.
    pub(super) certificate: Option<String>,
    /// The servers of each cell.
    pub(super) cells: BTreeMap<Cell, Vec<CellServer>>,
}

/// A process with both doors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CellServer {
    /// Its public door.
    pub(super) public: SocketAddr,
    /// Its internal door, which also answers health checks.
    pub(super) internal: SocketAddr,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    public: SocketAddr,
    internal: SocketAddr,
    certificate: Option<String>,
    #[serde(default)]
    cells: Vec<CellEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CellEntry {
    cell: i64,
    servers: Vec<CellServer>,
}

impl CellPlan {
    /// Reads the file.
    ///
    /// # Errors
    /// If it is no TOML of this form, names no cell, or names a cell or an address twice.
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let file: PlanFile = toml_edit::de::from_str(text)?;
        ensure!(!file.cells.is_empty(), "it names no cell: write [[cells]], cell and servers");
        let mut cells = BTreeMap::new();
        let mut addresses = vec![file.public, file.internal];
        for CellEntry { cell: number, servers } in file.cells {
            let cell = Cell::try_from(number).with_context(|| format!("cell = {number}"))?;
            ensure!(!servers.is_empty(), "cell {cell} has no server");
            addresses.extend(servers.iter().flat_map(|server| [server.public, server.internal]));
            if cells.insert(cell, servers).is_some() {
                bail!("cell {cell} is there twice");
            }
        }
        addresses.sort();
        if let Some([twice, _]) = addresses.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!("the address {twice} is there twice");
        }
        if let Some(certificate) = &file.certificate {
            let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '\\' | '#');
            ensure!(certificate.chars().all(is_plain), "certificate: the path may not be quoted");
        }
        let PlanFile { public, internal, certificate, .. } = file;
        Ok(Self { public, internal, certificate, cells })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const HEAD: &str = "public = \"127.0.0.1:80\"\ninternal = \"127.0.0.1:81\"\n";

    #[test]
    fn a_file_names_cells_and_their_servers() {
        let cells = "[[cells]]\ncell = 63\nservers = [{ public = \"10.0.0.1:80\", \
                     internal = \"10.0.0.1:81\" }]\n";
        let plan = CellPlan::read(&format!("{HEAD}{cells}")).unwrap();
        assert_eq!(plan.cells.keys().map(|cell| cell.number()).collect::<Vec<_>>(), [63]);
        assert_eq!(plan.cells.values().next().unwrap()[0].internal.port(), 81);
    }

    #[rstest]
    #[case("", "it names no cell")]
    #[case("[[cells]]\ncell = 64\nservers = []", "cell = 64")]
    #[case("[[cells]]\ncell = 1\nservers = []", "cell 1 has no server")]
    #[case("[[cells]]\ncell = 1", "missing field `servers`")]
    #[case("certficate = \"x\"", "unknown field `certficate`")]
    #[case(
        "certificate = \"a b\"\n[[cells]]\ncell = 1\nservers = [{ public = \"10.0.0.1:80\", internal = \"10.0.0.1:81\" }]",
        "may not be quoted"
    )]
    #[case(
        "[[cells]]\ncell = 1\nservers = [{ public = \"10.0.0.1:80\", internal = \"10.0.0.1:80\" }]",
        "10.0.0.1:80 is there twice"
    )]
    #[case(
        "[[cells]]\ncell = 1\nservers = [{ public = \"here:80\", internal = \"10.0.0.1:80\" }]",
        "invalid socket address"
    )]
    fn a_wrong_file_is_refused(#[case] rest: &str, #[case] reason: &str) {
        let refused = CellPlan::read(&format!("{HEAD}{rest}")).unwrap_err();
        let told = format!("{refused:#}");
        assert!(told.contains(reason), "{told}");
    }

    #[test]
    fn a_repeated_cell_is_refused() {
        let server =
            |port| format!("{{ public = \"10.0.0.1:{port}\", internal = \"10.0.0.2:{port}\" }}");
        let cell = |port| format!("[[cells]]\ncell = 1\nservers = [{}]\n", server(port));
        let refused = CellPlan::read(&format!("{HEAD}{}{}", cell(1), cell(2))).unwrap_err();
        assert_eq!(refused.to_string(), "cell 1 is there twice");
    }
}
