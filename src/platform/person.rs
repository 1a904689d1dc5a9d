//! What only a person can see to: a captcha, a login.
//!
//! They park the account. Nothing more is granted for it, what is in flight ends, and the site ends blocked, with what is
//! to be done. Its tasks wait in the store for the next run.

use url::Url;

use super::context::Context;
use crate::governor::{Pause, Resume, Target};
use crate::model::Outcome;
use crate::site::urls::shown;

/// What a person has to do, for `outcome`; `None`: nothing.
fn errand(site: &str, outcome: Outcome, url: &Url) -> Option<String> {
    let (asks, do_this) = match outcome {
        Outcome::Captcha => ("a captcha", "solve it with a browser"),
        Outcome::Login => ("a login", "log in with a browser"),
        _ => return None,
    };
    Some(format!(
        "{} asks for {asks}: {do_this}, bring its cookies (`crawler-node sessions import --site {site} --file FILE`), \
         and give the same command again",
        shown(url)
    ))
}

impl Context {
    /// Looks whether an answer of class `outcome` needs a person; then nothing more is granted for the site.
    ///
    /// In `crawl` mode there is no account that could be in trouble, and 401 says something of one page: only that page
    /// is parked.
    pub(super) fn look_for_errand(&self, outcome: Outcome, url: &Url) {
        let site = &self.assignment.site;
        if site.lanes_by_host() || self.errand.borrow().is_some() {
            return;
        }
        if let Some(errand) = errand(site.name(), outcome, url) {
            self.errand.replace(Some(errand));
            self.assignment.governor.tell(Pause {
                target: Target::Site(site.name().clone()),
                length: None,
            });
        }
    }

    /// What a person has to do before the site can go on.
    pub(super) fn errand(&self) -> Option<String> {
        self.errand.borrow().clone()
    }

    /// Ends the pause that an errand began: whoever gives the next job on this node says that it can go on.
    pub(super) fn leave_errand(&self) {
        if self.errand.borrow().is_some() {
            self.assignment.governor.tell(Resume {
                target: Target::Site(self.assignment.site.name().clone()),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_told_what_to_do_and_no_secret() {
        let url = Url::parse("https://me:pw@shop.example/item/3").unwrap();
        let told = errand("shop", Outcome::Captcha, &url).unwrap();
        assert!(
            told.contains("shop.example/item/3 asks for a captcha"),
            "{told}"
        );
        assert!(told.contains("sessions import --site shop"), "{told}");
        assert!(!told.contains("pw"), "{told}");
        let told = errand("shop", Outcome::Login, &url).unwrap();
        assert!(told.contains("log in with a browser"), "{told}");
        for outcome in Outcome::ALL {
            let needs = matches!(outcome, Outcome::Captcha | Outcome::Login);
            assert_eq!(errand("shop", outcome, &url).is_some(), needs, "{outcome}");
        }
    }
}
