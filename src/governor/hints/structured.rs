//! Structured fields (RFC 9651), as far as limits are told in them: lists and dictionaries of items with
//! parameters. All types are read, so that a member of a type that nobody uses here does not spoil the field.
//!
//! Parsing fails as a whole, as the standard demands.

/// A bare item. Types that say nothing of limits keep no value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Bare {
    /// At most 15 digits.
    Integer(i64),
    /// A string or a token.
    Text(String),
    /// A byte sequence, as it was written (base64): it is compared, not read.
    Bytes(String),
    /// Decimal, boolean, date, display string or inner list.
    Other,
}

/// A member of a list, or of a dictionary.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    /// Its key, in a dictionary.
    pub(super) key: Option<String>,
    /// Its value.
    pub(super) item: Bare,
    params: Vec<(String, Bare)>,
}

impl Member {
    /// The parameter called `key`: of several the last.
    pub(super) fn param(&self, key: &str) -> Option<&Bare> {
        let mut params = self.params.iter().rev();
        params.find(|(name, _)| name == key).map(|(_, value)| value)
    }
}

/// The members of a list; `None` when it is malformed.
pub(super) fn list(field: &str) -> Option<Vec<Member>> {
    members(field, |parser| {
        let item = parser.member()?;
        Some(Member {
            key: None,
            item,
            params: parser.params()?,
        })
    })
}

/// The members of a dictionary, in order, repeated keys and all; `None` when it is malformed.
pub(super) fn dictionary(field: &str) -> Option<Vec<Member>> {
    members(field, |parser| {
        let key = parser.key()?;
        let item = match parser.eat(b'=') {
            true => parser.member()?,
            false => Bare::Other,
        };
        Some(Member {
            key: Some(key),
            item,
            params: parser.params()?,
        })
    })
}

fn members(field: &str, member: impl Fn(&mut Parser<'_>) -> Option<Member>) -> Option<Vec<Member>> {
    let mut parser = Parser {
        left: field.as_bytes(),
    };
    parser.skip(b" ");
    let mut found = Vec::new();
    while !parser.left.is_empty() {
        found.push(member(&mut parser)?);
        parser.skip(b" \t");
        if parser.left.is_empty() {
            break;
        }
        if !parser.eat(b',') {
            return None;
        }
        parser.skip(b" \t");
        // A comma at the end promises a member.
        if parser.left.is_empty() {
            return None;
        }
    }
    Some(found)
}

struct Parser<'a> {
    left: &'a [u8],
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.left.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.left.split_first()?;
        self.left = rest;
        Some(*first)
    }

    fn eat(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        if there {
            self.next();
        }
        there
    }

    fn skip(&mut self, any: &[u8]) {
        while self.peek().is_some_and(|byte| any.contains(&byte)) {
            self.next();
        }
    }

    /// The bytes for which `test` holds, as text.
    fn run(&mut self, test: impl Fn(u8) -> bool) -> String {
        let mut text = String::new();
        while let Some(byte) = self.peek()
            && test(byte)
        {
            text.push(char::from(byte));
            self.next();
        }
        text
    }

    fn key(&mut self) -> Option<String> {
        let first = self.peek()?;
        if !first.is_ascii_lowercase() && first != b'*' {
            return None;
        }
        Some(self.run(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
        }))
    }

    fn params(&mut self) -> Option<Vec<(String, Bare)>> {
        let mut params = Vec::new();
        while self.eat(b';') {
            self.skip(b" ");
            let key = self.key()?;
            let value = match self.eat(b'=') {
                true => self.bare()?,
                false => Bare::Other,
            };
            params.push((key, value));
        }
        Some(params)
    }

    /// An item without its parameters, or an inner list.
    fn member(&mut self) -> Option<Bare> {
        if !self.eat(b'(') {
            return self.bare();
        }
        loop {
            self.skip(b" ");
            if self.eat(b')') {
                return Some(Bare::Other);
            }
            self.bare()?;
            self.params()?;
            if !matches!(self.peek(), Some(b' ' | b')')) {
                return None;
            }
        }
    }

    fn bare(&mut self) -> Option<Bare> {
        match self.peek()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string().map(Bare::Text),
            b':' => self.bytes(),
            b'?' => {
                self.next();
                matches!(self.next()?, b'0' | b'1').then_some(Bare::Other)
            }
            b'@' => {
                self.next();
                match self.number()? {
                    Bare::Integer(_) => Some(Bare::Other),
                    _ => None,
                }
            }
            b'%' => self.display_string(),
            byte if byte.is_ascii_alphabetic() || byte == b'*' => {
                Some(Bare::Text(self.run(|byte| {
                    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
                })))
            }
            _ => None,
        }
    }

    /// An integer of at most 15 digits, or a decimal of at most 12 and 3.
    fn number(&mut self) -> Option<Bare> {
        let minus = self.eat(b'-');
        let whole = self.run(|byte| byte.is_ascii_digit());
        if self.eat(b'.') {
            let fraction = self.run(|byte| byte.is_ascii_digit());
            let fits = (1..=12).contains(&whole.len()) && (1..=3).contains(&fraction.len());
            return fits.then_some(Bare::Other);
        }
        if whole.len() > 15 {
            return None;
        }
        let number: i64 = whole.parse().ok()?;
        Some(Bare::Integer(if minus { -number } else { number }))
    }

    fn string(&mut self) -> Option<String> {
        self.next();
        let mut text = String::new();
        loop {
            match self.next()? {
                b'"' => return Some(text),
                b'\\' => match self.next()? {
                    byte @ (b'"' | b'\\') => text.push(char::from(byte)),
                    _ => return None,
                },
                byte @ b' '..=b'~' => text.push(char::from(byte)),
                _ => return None,
            }
        }
    }

    fn bytes(&mut self) -> Option<Bare> {
        self.next();
        let text = self.run(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
        self.eat(b':').then_some(Bare::Bytes(text))
    }

    /// `%"…"` with bytes beyond ASCII as `%` and two hexadecimal digits in lower case.
    fn display_string(&mut self) -> Option<Bare> {
        self.next();
        if !self.eat(b'"') {
            return None;
        }
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        loop {
            match self.next()? {
                b'"' => return Some(Bare::Other),
                b'%' => {
                    if !hex(self.next()?) || !hex(self.next()?) {
                        return None;
                    }
                }
                b' '..=b'~' => {}
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> Bare {
        Bare::Text(text.to_owned())
    }

    #[test]
    fn a_list_of_every_type_is_read() {
        let field = r#""a\"b\\";q=5;x;q=6 , tok/en:*;d=1.5, -7,:aGk=:;p=:YQ==:, ?1, @1700, %"f%c3%bc", (1 "x";y 2);z=1"#;
        let members = list(field).expect("well formed");
        let items: Vec<&Bare> = members.iter().map(|member| &member.item).collect();
        assert_eq!(
            items,
            [
                &text("a\"b\\"),
                &text("tok/en:*"),
                &Bare::Integer(-7),
                &Bare::Bytes("aGk=".to_owned()),
                &Bare::Other,
                &Bare::Other,
                &Bare::Other,
                &Bare::Other
            ]
        );
        assert_eq!(members[0].param("q"), Some(&Bare::Integer(6)), "the last");
        assert_eq!(members[0].param("x"), Some(&Bare::Other));
        assert_eq!(members[0].param("y"), None);
        assert_eq!(members[3].param("p"), Some(&Bare::Bytes("YQ==".to_owned())));
        assert_eq!(members[7].param("z"), Some(&Bare::Integer(1)));
    }

    #[test]
    fn a_dictionary_is_no_list_and_is_read_as_one() {
        let field = "limit=100, remaining=50;x=1, flag, reset=5";
        assert_eq!(list(field), None);
        let members = dictionary(field).expect("well formed");
        let keys: Vec<_> = members.iter().map(|member| member.key.as_deref()).collect();
        let expected = ["limit", "remaining", "flag", "reset"].map(Some);
        assert_eq!(keys, expected);
        assert_eq!(members[1].item, Bare::Integer(50));
        assert_eq!(members[2].item, Bare::Other);
    }

    #[test]
    fn what_is_malformed_fails_as_a_whole() {
        assert_eq!(list(""), Some(Vec::new()));
        for field in [
            "\"a\",",
            ",\"a\"",
            "\"a\" \"b\"",
            "\"a\";",
            "\"a\";Q=1",
            "\"a\";q=",
            "\"a\";q= 1",
            "\"a",
            "\"a\\n\"",
            "\"\u{e9}\"",
            "1234567890123456",
            "1.2345",
            "1.",
            "--1",
            "-",
            ":a",
            "?2",
            "@1.5",
            "%\"%C3\"",
            "(1",
            "(1,2)",
            "=1",
        ] {
            assert_eq!(list(field), None, "{field:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        #[test]
        fn no_text_panics(field in ".*") {
            let _ = (list(&field), dictionary(&field));
        }

        #[test]
        fn no_near_miss_panics(field in "[a-q\"\\\\;=:?@%().,0-9 \t-]{0,60}") {
            let _ = (list(&field), dictionary(&field));
        }

        #[test]
        fn what_is_written_is_read_again(
            names in prop::collection::vec("[a-z][a-z0-9-]{0,8}", 1..5),
            value in -999_999_999_999_999_i64..=999_999_999_999_999,
        ) {
            let written: Vec<String> = names.iter().map(|name| format!("\"{name}\";q={value}")).collect();
            let members = list(&written.join(", ")).expect("well formed");
            prop_assert_eq!(members.len(), names.len());
            for (member, name) in members.iter().zip(&names) {
                prop_assert_eq!(&member.item, &Bare::Text(name.clone()));
                prop_assert_eq!(member.param("q"), Some(&Bare::Integer(value)));
            }
        }
    }
}
