//! How deeply a page is nested, found without building its tree.

use super::markup::{Tag, Tags};

/// Trees deeper than this are not built: building one takes time quadratic in its depth.
pub(super) const MAX_DEPTH: usize = 512;

/// Elements without content.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr", "param",
];

/// Elements that their like or their parent's end closes: forgotten end tags do not add up.
const CLOSED_BY_OTHERS: [&str; 14] = [
    "p", "li", "dt", "dd", "option", "optgroup", "tr", "td", "th", "thead", "tbody", "tfoot", "rt",
    "rp",
];

/// Elements whose end tag takes only themselves out, not what is open inside them.
const FORMATTING: [&str; 14] = [
    "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u",
];

/// Elements whose end tag reaches past others, up to a barrier.
const BLOCKS: [&str; 28] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "button",
    "center",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "hgroup",
    "listing",
    "main",
    "menu",
    "nav",
    "ol",
    "pre",
    "search",
    "section",
    "summary",
    "ul",
];

/// Elements that an end tag from inside does not reach past.
const BARRIERS: [&str; 10] = [
    "table", "caption", "html", "template", "applet", "marquee", "object", "svg", "math", "body",
];

fn among(names: &[&str], name: &[u8]) -> bool {
    names
        .iter()
        .any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

/// Whether a tree builder might nest elements deeper than `max`. It never counts less than a tree builder does
/// by more than the elements that others close; where rules are involved, it counts more.
pub(super) fn deeper_than(html: &[u8], max: usize) -> bool {
    let mut open: Vec<&[u8]> = Vec::new();
    for tag in Tags::new(html) {
        if tag.closes {
            close(&mut open, tag.name);
        } else if opens(&tag) {
            open.push(tag.name);
            if open.len() > max {
                return true;
            }
        }
    }
    false
}

fn opens(tag: &Tag<'_>) -> bool {
    if tag.foreign {
        return !tag.self_closing;
    }
    // Elements of text alone have had their content skipped, their end tag follows.
    !among(&VOID, tag.name) && !among(&CLOSED_BY_OTHERS, tag.name)
}

fn close(open: &mut Vec<&[u8]>, name: &[u8]) {
    let same = |other: &&[u8]| other.eq_ignore_ascii_case(name);
    if open.last().is_some_and(&same) {
        open.pop();
        return;
    }
    let Some(at) = open.iter().rposition(same) else {
        return;
    };
    let inner = &open[at + 1..];
    let blocked = |names: &[&str]| inner.iter().any(|other| among(names, other));
    if among(&FORMATTING, name) {
        if !blocked(&BARRIERS) {
            open.remove(at);
        }
    } else if among(&BARRIERS, name) || among(&BLOCKS, name) {
        if !blocked(&BARRIERS) || name.eq_ignore_ascii_case(b"table") {
            open.truncate(at);
        }
    } else if !blocked(&BARRIERS) && !blocked(&BLOCKS) {
        open.truncate(at);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use scraper::{Html, Node};

    use super::*;

    fn tree_depth(page: &str) -> usize {
        let html = Html::parse_document(page);
        html.tree
            .nodes()
            .filter(|node| matches!(node.value(), Node::Element(_)))
            .map(|node| node.ancestors().count())
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn ordinary_pages_are_shallow() {
        let row = "<tr><td><p>x<td><b>y</b><img><br>";
        let page = format!(
            "<table>{}</table><ul>{}</ul>",
            row.repeat(2000),
            "<li>a".repeat(2000)
        );
        assert!(!deeper_than(page.as_bytes(), 20));
        let page = "<div><span><a href=x>y</a></span></div>".repeat(2000);
        assert!(!deeper_than(page.as_bytes(), 20));
        let unclosed = format!("<div><b>{}</div>", "<div><i>x</i></div>".repeat(2000));
        assert!(!deeper_than(unclosed.as_bytes(), 20));
    }

    #[test]
    fn tricks_do_not_hide_depth() {
        for trick in [
            "<div>",
            "<div></b>",
            "<b><div></b>",
            "<span><div></span>",
            "<div><table></div>",
            "<svg>",
            "<x-y>",
        ] {
            let page = trick.repeat(2000);
            assert!(deeper_than(page.as_bytes(), MAX_DEPTH), "{trick}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn a_tree_is_never_much_deeper(parts in proptest::collection::vec(0_usize..24, 1..60), times in 1_usize..6) {
            const PARTS: [&str; 24] = [
                "<div>", "</div>", "<b>", "</b>", "<p>", "</p>", "<span>", "</span>", "<table>", "</table>", "<ul><li>",
                "</ul>", "<svg>", "</svg>", "<a>", "</a>", "<section>", "</section>", "<i>", "</i>", "<x-a>", "</x-a>",
                "<tr><td>", "text",
            ];
            let page = parts.iter().map(|i| PARTS[*i]).collect::<String>().repeat(times);
            let depth = tree_depth(&page);
            // Elements that others close, and those a tree builder supplies, add at most a factor and a constant.
            if depth > 40 {
                prop_assert!(deeper_than(page.as_bytes(), depth / 4 - 4), "{} deep: {}", depth, page);
            }
        }
    }
}
