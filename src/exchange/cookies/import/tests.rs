use proptest::prelude::*;

use super::*;
use crate::exchange::cookies::Jar;
use url::Url;

const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

fn import(text: &str) -> Result<Imported, ImportErrors> {
    let own = ["example.com".to_owned()];
    let wanted = Wanted {
        own: &own,
        domain: "www.example.com",
        secure: true,
    };
    read(text, &wanted, NOW)
}

fn sent(text: &str, url: &str) -> String {
    let mut jar = Jar::restored(import(text).unwrap().cookies, NOW);
    let header = jar.header(&Url::parse(url).unwrap(), NOW, |_| false);
    String::from_utf8(header.unwrap_or_default()).unwrap()
}

const NETSCAPE: &str = "# Netscape HTTP Cookie File\r\n# comment\r\n\r\n\
    .example.com\tTRUE\t/\tTRUE\t2000000000\tz_c0\t\"2|1:0|a=b==\"\r\n\
    #HttpOnly_www.example.com\tFALSE\t/\tFALSE\t0\tsid\ta b\r\n\
    example.com\tTRUE\t/\tFALSE\t1600000000\told\tx\r\n\
    .other.com\tTRUE\t/\tFALSE\t2000000000\tforeign\tx\r\n\
    www.example.com\tFALSE\t/\tFALSE\t\tempty\r\n";

#[test]
fn netscape_files_with_all_their_oddities() {
    let imported = import(NETSCAPE).unwrap();
    assert_eq!(imported.form, Form::Netscape);
    assert_eq!(
        (imported.cookies.len(), imported.foreign, imported.expired),
        (3, 1, 1)
    );
    assert!(imported.cookies[1].http_only && imported.cookies[1].host_only);
    assert_eq!(
        sent(NETSCAPE, "https://www.example.com/"),
        "z_c0=\"2|1:0|a=b==\"; sid=a b; empty="
    );
    assert_eq!(
        sent(NETSCAPE, "https://api.example.com/"),
        "z_c0=\"2|1:0|a=b==\""
    );
    assert_eq!(sent(NETSCAPE, "http://www.example.com/"), "sid=a b; empty=");
    assert_eq!(sent(NETSCAPE, "https://other.com/"), "");
}

#[test]
fn a_netscape_line_that_is_wrong_is_named_by_its_number_and_nothing_is_taken() {
    let head = "# Netscape HTTP Cookie File\n";
    for (line, told) in [
        (
            ".example.com TRUE / FALSE 0 sid s3cret",
            "line 2: its fields are parted by spaces; they must be parted by tabs",
        ),
        (
            ".example.com\tTRUE\t/\ts3cret",
            "line 2: it has 4 of the seven fields domain, subdomains, path, secure, end, name, value, which are \
             parted by tabs",
        ),
        (
            ".example.com\tyes\t/\tTRUE\t0\ta\ts3cret",
            "line 2: `subdomains` is neither TRUE nor FALSE",
        ),
        (
            ".example.com\tTRUE\t/\t1\t0\ta\ts3cret",
            "line 2: `secure` is neither TRUE nor FALSE",
        ),
        (
            ".example.com\tTRUE\tx\tTRUE\t0\ta\ts3cret",
            "line 2: its path does not begin with `/`",
        ),
        (
            ".example.com\tTRUE\t/\tTRUE\tsoon\ta\ts3cret",
            "line 2: its end is not a number of seconds since 1970",
        ),
        (
            "a b\tTRUE\t/\tTRUE\t0\ta\ts3cret",
            "line 2: its domain is not the name of a host",
        ),
        (
            ".example.com\tTRUE\t/\tTRUE\t0\ta\ts3cret;x",
            "line 2: it has a control character, or a `;`, or a `=` in its name",
        ),
    ] {
        let error = import(&format!(
            "{head}{line}\n.example.com\tTRUE\t/\tTRUE\t0\tgood\tx"
        ))
        .unwrap_err();
        assert_eq!(error.to_string(), told, "{line}");
    }
    let spaces = import(".example.com TRUE / FALSE 0 sid s3cret").unwrap_err();
    assert!(
        spaces
            .to_string()
            .contains("line 1: its fields are parted by spaces"),
        "{spaces}"
    );
    let many = import(&format!("{head}{}", "x\n".repeat(30))).unwrap_err();
    assert_eq!(many.0.len(), MOST_PROBLEMS + 1);
    assert_eq!(many.0[MOST_PROBLEMS], "and 20 more");
}

#[test]
fn exports_of_browser_extensions() {
    let text = r#"[
        {"domain": ".example.com", "expirationDate": 2000000000.5, "hostOnly": false, "httpOnly": true, "name": "z_c0",
         "path": "/", "sameSite": "no_restriction", "secure": true, "session": false, "storeId": "0", "value": "a=b==",
         "id": 1},
        {"domain": "www.example.com", "hostOnly": true, "httpOnly": false, "name": "sid", "path": "/",
         "sameSite": null, "secure": false, "session": true, "storeId": null, "value": ""},
        {"domain": ".tracker.com", "name": "t", "value": "x"}
    ]"#;
    let imported = import(text).unwrap();
    assert_eq!(
        (imported.form, imported.cookies.len(), imported.foreign),
        (Form::Json, 2, 1)
    );
    let [wide, host] = &imported.cookies[..] else {
        panic!("two cookies");
    };
    assert!(!wide.host_only && wide.http_only && wide.secure);
    // An end later than allowed is cut to the latest one.
    assert_eq!(
        wide.expires,
        Some(UnixMillis(2_000_000_000_500).min(UnixMillis(NOW.0 + LONGEST_MILLIS)))
    );
    assert_eq!(wide.same_site, Some(crate::model::SameSite::None));
    assert!(host.host_only && host.expires.is_none());
    assert_eq!(sent(text, "https://www.example.com/"), "z_c0=a=b==; sid=");
}

#[test]
fn storage_states_of_browser_drivers() {
    let text = r#"{"cookies": [
        {"name": "a", "value": "1", "domain": "www.example.com", "path": "/x", "expires": -1, "httpOnly": false,
         "secure": false, "sameSite": "Lax"},
        {"name": "b", "value": "2", "domain": ".example.com", "path": "/", "expires": 1710000000, "size": 2,
         "secure": false, "session": false}
    ], "origins": []}"#;
    let imported = import(text).unwrap();
    assert_eq!(imported.cookies[0].expires, None);
    assert!(imported.cookies[0].host_only && !imported.cookies[1].host_only);
    assert_eq!(
        imported.cookies[1].expires,
        Some(UnixMillis(1_710_000_000_000))
    );
    assert_eq!(sent(text, "http://www.example.com/x"), "a=1; b=2");
}

#[test]
fn json_that_is_wrong_is_told_without_its_values() {
    for (text, told) in [
        ("{", "line 1, column 1: this is not JSON"),
        (
            "{\"a\": \"s3cret\"}",
            "the JSON object has no array `cookies`; allowed: an array of cookies, or such an object",
        ),
        (
            "[{\"name\": \"a\", \"value\": 7, \"domain\": \"s3cret\"}]",
            "cookie 1: it is no object with the texts `name`, `value` and `domain`, and ends in numbers and flags in \
             true or false",
        ),
        (
            "[{\"name\": \"a\", \"value\": \"b\", \"domain\": \"s3c ret\"}]",
            "cookie 1: its `domain` is not the name of a host",
        ),
        (
            "[{\"name\": \"__Host-a\", \"value\": \"b\", \"domain\": \".example.com\"}]",
            "cookie 1: its name begins with __Host- or __Secure-, but it is not what that promises",
        ),
    ] {
        assert_eq!(import(text).unwrap_err().to_string(), told, "{text}");
    }
}

#[test]
fn cookie_headers_with_equals_signs_in_their_values() {
    for text in [
        "a=b=c==; d=\"e f\";g=",
        "Cookie: a=b=c==; d=\"e f\"; g=",
        "\u{feff}cookie:a=b=c==;d=\"e f\"; g=;\n",
    ] {
        assert_eq!(import(text).unwrap().form, Form::Header);
        assert_eq!(
            sent(text, "https://www.example.com/x"),
            "a=b=c==; d=\"e f\"; g=",
            "{text}"
        );
        assert_eq!(
            sent(text, "https://sub.www.example.com/"),
            "a=b=c==; d=\"e f\"; g="
        );
        assert_eq!(sent(text, "http://www.example.com/"), "", "for https only");
        assert_eq!(sent(text, "https://example.com/"), "");
    }
    let prefixed = import("__Host-a=1; __Secure-b=2").unwrap();
    assert!(prefixed.cookies[0].host_only && !prefixed.cookies[1].host_only);
}

#[test]
fn what_has_no_known_form_is_refused_with_the_forms_there_are() {
    assert_eq!(import(" \n ").unwrap_err().to_string(), "it is empty");
    for text in ["hello", "a=b\nc=d", "<html>\n</html>"] {
        let error = import(text).unwrap_err().to_string();
        assert!(
            error.contains("allowed: a Netscape cookies.txt, a JSON export"),
            "{error}"
        );
    }
}

#[test]
fn the_later_of_two_of_one_key_counts() {
    let text = ".example.com\tTRUE\t/\tTRUE\t0\ta\t1\n.example.com\tTRUE\t/\tTRUE\t0\ta\t2\n";
    assert_eq!(sent(text, "https://example.com/"), "a=2");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn no_text_makes_an_import_panic_or_tell_a_value_or_take_a_foreign_cookie(
        text in prop_oneof![
            ".{0,80}",
            "[ -~\t]{0,60}\t(TRUE|FALSE)\t/\t(TRUE|FALSE)\t[0-9.-]{0,9}\tn\ts3cret[;\u{1}]?",
            r#"\[\{"name":"n","value":"s3cret[;x]?","domain":"[.a-z%]{0,9}(example.com)?"(,"expires":-?[0-9]{1,30})?\}?\]"#,
            "(Cookie: )?[a-z]=s3cret(; ?[ -~]{0,9}){0,4}",
        ],
    ) {
        match import(&text) {
            Ok(imported) => for cookie in imported.cookies {
                prop_assert_eq!(domain::registrable(&cookie.domain), "example.com");
            },
            Err(error) => prop_assert!(!error.to_string().contains("s3cret")),
        }
    }
}
