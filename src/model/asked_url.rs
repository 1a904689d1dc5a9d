//! A URL as it is asked: what a link or a redirect says, by the URL standard, without what is never sent.

use url::{Host, Url};

/// `url` as it may be asked; `None`: it is neither http nor https.
///
/// A user name and a password are dropped: who wrote a link is not who crawls, and what they hold must be in no key
/// and no log. So is one dot at the end of a name, which is the same name to the DNS (RFC 1034 §3.1) but not to many
/// servers; limits, robots.txt and scope then know it as the one host that it is. The fragment stays, and is not sent.
#[must_use]
pub fn asked_url(mut url: Url) -> Option<Url> {
    if !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    if !url.username().is_empty() || url.password().is_some() {
        url.set_username("").ok()?;
        url.set_password(None).ok()?;
    }
    if let Some(Host::Domain(name)) = url.host()
        && let Some(bare) = name.strip_suffix('.')
        && !bare.is_empty()
        && !bare.ends_with('.')
    {
        let bare = bare.to_owned();
        // What is left could be no name: `1.2.3.4..` must not become an address.
        let _ = url.set_host(Some(&bare));
    }
    Some(url)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asked(text: &str) -> Option<String> {
        asked_url(Url::parse(text).unwrap()).map(Into::into)
    }

    #[test]
    fn user_names_and_the_dot_of_a_name_are_dropped() {
        for (given, wanted) in [
            ("http://u:p@h.example/a?b#c", "http://h.example/a?b#c"),
            ("https://info@h.example", "https://h.example/"),
            ("http://:p@h.example:81/", "http://h.example:81/"),
            ("http://H.example.:81/x.", "http://h.example:81/x."),
            ("http://h.example../", "http://h.example../"),
            ("http://[0:0::1]:80/", "http://[::1]/"),
            ("http://0x7f.1/", "http://127.0.0.1/"),
        ] {
            assert_eq!(asked(given).as_deref(), Some(wanted), "{given}");
        }
        for other in [
            "ftp://h/",
            "mailto:a@b",
            "javascript:1",
            "file:///etc/passwd",
        ] {
            assert_eq!(asked(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn it_is_stable_and_free_of_users(
            user in "[a-z:@%]{0,6}", host in "[a-zA-Z0-9.\\[\\]:é-]{1,16}", rest in "\\PC{0,20}"
        ) {
            if let Ok(url) = Url::parse(&format!("http://{user}@{host}/{rest}")) {
                let once = asked_url(url).unwrap();
                prop_assert!(once.username().is_empty() && once.password().is_none());
                prop_assert!(once.has_host());
                prop_assert_eq!(Url::parse(once.as_str()), Ok(once.clone()));
                prop_assert_eq!(asked_url(once.clone()), Some(once));
            }
        }
    }
}
