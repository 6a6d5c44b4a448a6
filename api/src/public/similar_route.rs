//! The route that a caller of an unknown path may mean: without `/api/v1`, with another version, in
//! other letters or with a last slash.

/// Prefix of all routes of the contract.
pub(super) const PREFIX: &str = "/api/v1";

/// The route's template. The caller's own path is never repeated.
pub(super) fn similar_route<'a>(
    path: &str,
    mut routes: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let rest = match segments.as_slice() {
        [api, version, rest @ ..] if api.eq_ignore_ascii_case("api") && is_version(version) => rest,
        [first, rest @ ..] if first.eq_ignore_ascii_case("api") || is_version(first) => rest,
        all => all,
    };
    routes.find(|route| is_route(route, rest)).map(|route| format!("{PREFIX}{route}"))
}

fn is_version(segment: &str) -> bool {
    segment.strip_prefix(['v', 'V']).is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn is_route(route: &str, segments: &[&str]) -> bool {
    let template: Vec<&str> = route.split('/').skip(1).collect();
    let fits =
        |part: &&str, segment: &&str| part.starts_with('{') || part.eq_ignore_ascii_case(segment);
    template.len() == segments.len() && template.iter().zip(segments).all(|(a, b)| fits(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("/hooks", Some("/api/v1/hooks"))]
    #[case("/api/v1/hooks/", Some("/api/v1/hooks"))]
    #[case("/v1/hooks", Some("/api/v1/hooks"))]
    #[case("/api/hooks", Some("/api/v1/hooks"))]
    #[case("/api/v2/Hooks", Some("/api/v1/hooks"))]
    #[case("//api//v1//hooks", Some("/api/v1/hooks"))]
    #[case("/forms/ann@example.com/send", Some("/api/v1/forms/{id}/send"))]
    #[case("/", None)]
    #[case("/api/v1", None)]
    #[case("/api/v1/hook", None)]
    #[case("/hooks/1/2", None)]
    fn an_unknown_path_names_a_similar_route(#[case] path: &str, #[case] meant: Option<&str>) {
        let routes = ["/me", "/hooks", "/hooks/{id}", "/forms/{id}/send"];
        assert_eq!(similar_route(path, routes.into_iter()).as_deref(), meant, "{path}");
    }
}
