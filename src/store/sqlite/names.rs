//! Names of sites, endpoints and kinds, stored once and spoken of by number.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use crate::model::Name;

/// The number of a name within its job.
pub(super) type NameId = u32;

/// All names of a job: there are as many as sites, endpoints and kinds, so they stay in memory.
#[derive(Debug, Default)]
pub(super) struct Names {
    by_id: Vec<Name>,
    by_name: HashMap<Name, NameId>,
}

impl Names {
    /// Read them all.
    pub(super) fn load(db: &Connection) -> rusqlite::Result<Self> {
        let mut names = Self::default();
        let mut rows = db.prepare("SELECT name FROM names ORDER BY id")?;
        for name in rows.query_map([], |row| row.get::<_, String>(0))? {
            names.add(name?.into());
        }
        Ok(names)
    }

    fn add(&mut self, name: Name) -> NameId {
        let id = NameId::try_from(self.by_id.len()).unwrap_or(NameId::MAX);
        self.by_id.push(name.clone());
        self.by_name.insert(name, id);
        id
    }

    /// The number of `name`; a new one is stored within the caller's transaction.
    pub(super) fn intern(&mut self, db: &Connection, name: &str) -> rusqlite::Result<NameId> {
        if let Some(&id) = self.by_name.get(name) {
            return Ok(id);
        }
        let id = self.add(name.into());
        db.prepare_cached("INSERT INTO names(id, name) VALUES (?1, ?2)")?
            .execute(params![id, name])?;
        Ok(id)
    }

    /// The number of `name`, if it has one.
    pub(super) fn find(&self, name: &str) -> Option<NameId> {
        self.by_name.get(name).copied()
    }

    /// The name with that number.
    pub(super) fn get(&self, id: NameId) -> Name {
        self.by_id
            .get(id as usize)
            .cloned()
            .unwrap_or_else(|| "?".into())
    }
}
