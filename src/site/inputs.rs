//! Inputs: reading what a person gives, a keyword, an id or a URL, into the values of a task.

use regex::Regex;

use crate::model::Params;

/// How a mode of a site starts.
#[derive(Clone, Debug)]
pub(super) struct ModeRule {
    /// Its place in the document.
    pub(super) at: usize,
    /// The value that an input becomes.
    pub(super) each: String,
    /// The endpoints that each input is sent to.
    pub(super) start: Vec<String>,
    /// Forms of an input, the first that fits counts; none: any text.
    pub(super) inputs: Vec<Regex>,
}

impl ModeRule {
    /// The values that the forms give, one list for each form.
    pub(super) fn filled(&self) -> Vec<Vec<&str>> {
        if self.inputs.is_empty() {
            return vec![vec![&self.each]];
        }
        self.inputs
            .iter()
            .map(|form| {
                let names: Vec<&str> = form.capture_names().flatten().collect();
                if names.is_empty() {
                    vec![self.each.as_str()]
                } else {
                    names
                }
            })
            .collect()
    }

    /// Reads one input.
    ///
    /// # Errors
    /// The reason, for people.
    pub(super) fn read(&self, input: &str) -> Result<Params, String> {
        let input = input.trim();
        if input.is_empty() {
            return Err("it is empty".to_owned());
        }
        let mut params = Params::new();
        if self.inputs.is_empty() {
            params.insert(self.each.clone(), input.into());
            return Ok(params);
        }
        let fit = self
            .inputs
            .iter()
            .find_map(|form| Some((form, form.captures(input)?)));
        let Some((form, captures)) = fit else {
            let forms: Vec<&str> = self.inputs.iter().map(Regex::as_str).collect();
            return Err(format!("it fits none of the forms {}", forms.join("  ")));
        };
        for name in form.capture_names().flatten() {
            if let Some(value) = captures.name(name) {
                params.insert(name.to_owned(), value.as_str().into());
            }
        }
        if params.is_empty() {
            let whole = captures.get(1).or_else(|| captures.get(0));
            let text = whole.map(|found| found.as_str()).unwrap_or_default();
            params.insert(self.each.clone(), text.into());
        }
        Ok(params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(inputs: &[&str]) -> ModeRule {
        ModeRule {
            at: 0,
            each: "id".to_owned(),
            start: vec!["detail".to_owned()],
            inputs: inputs
                .iter()
                .map(|form| Regex::new(form).unwrap())
                .collect(),
        }
    }

    #[test]
    fn ids_and_urls_give_the_same_values() {
        let rule = rule(&[
            r"^\d+$",
            r"h\.example/item/(?<id>\d+)(\?token=(?<token>\w+))?",
        ]);
        assert_eq!(rule.read(" 17 ").unwrap()["id"], "17");
        let params = rule.read("https://h.example/item/17?token=x").unwrap();
        assert_eq!(
            (params["id"].as_str(), params["token"].as_str()),
            (Some("17"), Some("x"))
        );
        assert_eq!(rule.read("https://h.example/item/17").unwrap().len(), 1);
        assert!(
            rule.read("seventeen")
                .unwrap_err()
                .contains("none of the forms")
        );
        assert!(rule.read("  ").is_err());
    }

    #[test]
    fn a_group_without_a_name_is_the_input() {
        assert_eq!(rule(&[r"^item-(\d+)$"]).read("item-5").unwrap()["id"], "5");
        assert_eq!(rule(&[]).read("any thing").unwrap()["id"], "any thing");
    }
}
