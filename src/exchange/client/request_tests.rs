//! Tests of what is put on the wire for a URL.

use proptest::prelude::*;

use super::*;
use crate::model::asked_url;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_link_that_may_be_asked_can_be_sent_as_it_is(
        link in "(\\PC{0,30}|(http:|https:|//|\\\\|[@:?#%./|\\[\\]{}^`'\"<>;=&!$()*+,~_ -]|%[0-9a-f]{2}|[a-zé0-9]){0,16})"
    ) {
        let base = Url::parse("http://h.example/a/b?c").unwrap();
        if let Some(url) = base.join(&link).ok().and_then(asked_url) {
            let uri = uri_of(&url);
            let Ok(uri) = uri else {
                // The URL standard lets names have characters that no name has.
                let host = url.host_str().unwrap();
                let name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
                prop_assert!(!host.bytes().all(name), "{}: {:?}", url, uri);
                return Ok(());
            };
            let sent = uri.path_and_query().map(ToString::to_string);
            let linked = &url[Position::BeforePath..Position::AfterQuery];
            prop_assert_eq!(sent.as_deref(), Some(linked));
            prop_assert!(HeaderValue::from_str(&host_of(&url)).is_ok());
        }
    }
}
