//! What the API site tells, worked out from the seed alone.

use serde_json::{Value, json};

use super::ApiSite;
use crate::sim::dice::draw;

/// 2025-01-01T00:00:00Z in milliseconds: where the times of items begin. A fixed date, so that content never changes.
const EPOCH_MS: u64 = 1_735_689_600_000;
const MINUTES_A_YEAR: u64 = 525_600;

const TITLES: [&str; 8] = [
    "Slow mornings ☕ in a small town",
    "城市夜跑攻略 🏃",
    "How to sharpen a knife, \"properly\"",
    "猫の一日 🐈‍⬛",
    "Ünïcode & <tags> in titles",
    "三天两夜的旅行 🧳 plan",
    "=1+1 is not a formula",
    "한국어 제목, with commas, and more",
];

const REMARKS: [&str; 6] = [
    "👍👍🏽 great",
    "说得好，收藏了！",
    "I disagree; see line 2\nof my answer",
    "なるほど 😂",
    "\"quoted\", with, commas",
    "谢谢分享 🙏",
];

pub(super) fn creator_name(index: u32) -> String {
    format!("u{index:03}")
}

pub(super) fn creator_title(index: u32) -> String {
    format!("Creator {index} 作者")
}

impl ApiSite {
    pub(super) fn draw(&self, what: &str, of: &[u8], nth: u32) -> u64 {
        draw(self.seed, &[what.as_bytes(), of, &nth.to_le_bytes()])
    }

    pub(super) fn creator_total(&self) -> u32 {
        self.creators.clamp(1, 800)
    }

    /// 19 digits, more than a float can hold: three for the creator, 14 drawn, two that tell whether an id exists.
    fn id(&self, creator: u32, drawn: u64) -> u64 {
        let front = u64::from(100 + creator) * 100_000_000_000_000 + drawn % 100_000_000_000_000;
        front * 100 + self.check(front)
    }

    fn check(&self, front: u64) -> u64 {
        self.draw("check", &front.to_le_bytes(), 0) % 100
    }

    pub(super) fn exists(&self, id: u64) -> bool {
        let creators = 100..100 + u64::from(self.creator_total());
        creators.contains(&(id / 10_000_000_000_000_000)) && id % 100 == self.check(id / 100)
    }

    /// The `nth` item of a list.
    pub(super) fn item(&self, list: &str, nth: u32) -> u64 {
        let creator = self.draw("creator", list.as_bytes(), nth) % u64::from(self.creator_total());
        self.id(creator as u32, self.draw("item", list.as_bytes(), nth))
    }

    /// The items in a creator's list.
    pub(super) fn created(&self, creator: u32) -> Vec<u64> {
        (0..self.creator_items)
            .map(|nth| self.id(creator, self.draw("created", &creator.to_le_bytes(), nth)))
            .collect()
    }

    pub(super) fn creator_index(&self, id: &str) -> Option<u32> {
        let index = id.strip_prefix('u')?.parse().ok()?;
        (index < self.creator_total() && creator_name(index) == id).then_some(index)
    }

    pub(super) fn creator_of(id: u64) -> String {
        creator_name(Self::creator_index_of(id))
    }

    fn creator_index_of(id: u64) -> u32 {
        // Three digits, not below 100 for an id that exists.
        (id / 10_000_000_000_000_000).saturating_sub(100) as u32
    }

    pub(super) fn token(&self, id: u64) -> String {
        // Signs that a query may hold as they are or escaped.
        format!("{:016x}/=", self.draw("token", &id.to_le_bytes(), 0))
    }

    pub(super) fn topic(&self, keyword: &str) -> String {
        format!("t{:012x}", self.draw("topic", keyword.as_bytes(), 0) >> 16)
    }

    pub(super) fn comment_count(&self, id: u64) -> u32 {
        let span = self.max_comments.saturating_sub(self.min_comments);
        let extra = self.draw("comments", &id.to_le_bytes(), 0) % (u64::from(span) + 1);
        self.min_comments + extra as u32
    }

    pub(super) fn comment_id(&self, id: u64, nth: u32) -> u64 {
        let drawn = self.draw("comment", &id.to_le_bytes(), nth);
        1_000_000_000_000_000_000 + drawn % 8_000_000_000_000_000_000
    }

    /// An offset as a cursor: no number that could be counted on by hand.
    pub(super) fn cursor(&self, id: u64, offset: u32) -> String {
        let mask = self.draw("cursor", &id.to_le_bytes(), 0) as u32;
        format!("c{:08x}", offset ^ mask)
    }

    pub(super) fn cursor_offset(&self, id: u64, cursor: &str) -> Option<u32> {
        let mask = self.draw("cursor", &id.to_le_bytes(), 0) as u32;
        let offset = u32::from_str_radix(cursor.strip_prefix('c')?, 16).ok()? ^ mask;
        (offset > 0 && offset.is_multiple_of(self.page_size.max(1))).then_some(offset)
    }

    pub(super) fn item_value(&self, id: u64) -> Value {
        let of = id.to_le_bytes();
        let creator = Self::creator_index_of(id);
        let title = TITLES[self.draw("title", &of, 0) as usize % TITLES.len()];
        let likes = self.draw("likes", &of, 0) % 200_000;
        json!({
            "id": id.to_string(),
            "title": title,
            "text": format!("{title}\n\n{}", REMARKS[self.draw("text", &of, 0) as usize % REMARKS.len()]),
            "likes": count(likes),
            "comment_count": self.comment_count(id),
            "published": EPOCH_MS + self.draw("time", &of, 0) % MINUTES_A_YEAR * 60_000,
            "tags": ["built-in", "标签"],
            "author": { "id": creator_name(creator), "name": creator_title(creator) },
        })
    }

    pub(super) fn comment_value(&self, id: u64, nth: u32) -> Value {
        let of = id.to_le_bytes();
        let remark = REMARKS[self.draw("remark", &of, nth) as usize % REMARKS.len()];
        json!({
            // A number on purpose: a reader that takes it for a float loses its last digits.
            "id": self.comment_id(id, nth),
            "text": format!("{remark} #{nth}"),
            "likes": self.draw("comment likes", &of, nth) % 900,
            "published": EPOCH_MS + self.draw("comment time", &of, nth) % MINUTES_A_YEAR * 60_000,
            "author": self.creator_id(self.draw("commenter", &of, nth) as u32),
        })
    }
}

/// As platforms abbreviate: a number below ten thousand, else "1.2万".
fn count(number: u64) -> Value {
    if number < 10_000 {
        json!(number)
    } else {
        json!(format!("{}.{}万", number / 10_000, number / 1_000 % 10))
    }
}
