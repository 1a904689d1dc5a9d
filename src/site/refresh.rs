//! Where a page sends its visitors by a `Refresh` header or `<meta http-equiv=refresh>`, read as the HTML standard
//! says (4.2.5.3, "shared declarative refresh steps").

/// The URL of `5; url=/next`, as written; `None` where there is none, or the text is no refresh at all.
#[must_use]
pub(super) fn target(text: &str) -> Option<&str> {
    let space = |c: char| c.is_ascii_whitespace();
    let text = text.trim_start_matches(space);
    let behind = text.trim_start_matches(|c: char| c.is_ascii_digit());
    if behind.len() == text.len() && !behind.starts_with('.') {
        return None;
    }
    let behind = behind.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !behind.starts_with(|c: char| matches!(c, ';' | ',') || space(c)) {
        return None;
    }
    let behind = behind.trim_start_matches(space);
    let behind = behind.strip_prefix([';', ',']).unwrap_or(behind);
    let behind = behind.trim_start_matches(space);
    // Without `url=` what is left is the URL itself.
    let url = named(behind).unwrap_or(behind);
    let url = match url.chars().next() {
        Some(quote @ ('"' | '\'')) => url[1..].split(quote).next().unwrap_or_default(),
        _ => url,
    };
    let url = url.trim_matches(space);
    (!url.is_empty()).then_some(url)
}

/// What stands behind `url =`.
fn named(text: &str) -> Option<&str> {
    let space = |c: char| c.is_ascii_whitespace();
    let (name, rest) = text.split_at_checked(3)?;
    let rest = rest.trim_start_matches(space).strip_prefix('=')?;
    name.eq_ignore_ascii_case("url")
        .then(|| rest.trim_start_matches(space))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_refresh_is_read_as_browsers_do() {
        for (text, wanted) in [
            ("0; url=/next", Some("/next")),
            ("0;URL=/next", Some("/next")),
            (" 5 ; Url = \"/a b\" x", Some("/a b")),
            ("0;url='/next", Some("/next")),
            ("0,url=/next", Some("/next")),
            ("0 /next", Some("/next")),
            ("0;/next", Some("/next")),
            ("3.5;url=/next", Some("/next")),
            (".5;url=/next", Some("/next")),
            ("0;urls", Some("urls")),
            ("0;url=", None),
            ("0;", None),
            ("30", None),
            ("", None),
            ("url=/next", None),
            ("x;url=/next", None),
            ("0x;url=/next", None),
            ("-1;url=/next", None),
            ("0;url=\u{e9}", Some("\u{e9}")),
            ("0;\u{20ac}", Some("\u{20ac}")),
        ] {
            assert_eq!(target(text), wanted, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(\\PC|[0-9;,. '\"=url]){0,30}") {
            if let Some(url) = target(&text) {
                prop_assert!(text.contains(url) && !url.is_empty());
            }
        }
    }
}
