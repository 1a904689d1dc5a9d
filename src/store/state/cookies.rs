//! Cookies in the state of the user, by account.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use rusqlite::{Connection, Row, Transaction, params};

use super::{StateError, immediate};
use crate::model::{AccountKey, Cookie, CookieKey, SameSite, UnixMillis};

pub(super) const TABLES: &str = "CREATE TABLE IF NOT EXISTS cookie (
         site TEXT NOT NULL,
         account TEXT NOT NULL,
         domain TEXT NOT NULL,
         host_only INTEGER NOT NULL,
         path TEXT NOT NULL,
         name BLOB NOT NULL,
         value BLOB NOT NULL,
         secure INTEGER NOT NULL,
         http_only INTEGER NOT NULL,
         same_site TEXT,
         expires INTEGER,
         created INTEGER NOT NULL,
         used INTEGER NOT NULL,
         PRIMARY KEY (site, account, domain, host_only, path, name)
     ) STRICT, WITHOUT ROWID;";

const COLUMNS: &str =
    "domain, host_only, path, name, value, secure, http_only, same_site, expires, created, used";

/// Cookies in `state.db`. Calls block. What was stored outlives a kill of the process; a loss of power may cost
/// the last seconds.
#[derive(Debug)]
pub struct StateCookies {
    path: PathBuf,
    connection: Connection,
}

impl StateCookies {
    /// Open `state.db` in `directory`; both are made when missing.
    ///
    /// # Errors
    /// When the directory or the file cannot be made, opened or read; the text names it.
    pub fn open(directory: &Path) -> Result<Self, StateError> {
        Self::of(super::open(directory)?)
    }

    /// As [`open`](Self::open), but `None` when there is no file: nothing is made.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_existing(directory: &Path) -> Result<Option<Self>, StateError> {
        super::open_existing(directory)?.map(Self::of).transpose()
    }

    fn of((path, connection): (PathBuf, Connection)) -> Result<Self, StateError> {
        // A task waits for its cookies: no sync of the disk for each. In WAL mode a commit is whole all the same.
        connection
            .pragma_update(None, "synchronous", "NORMAL")
            .map_err(|error| StateError::of(&path, &error))?;
        Ok(Self { path, connection })
    }

    /// The cookies of an account, in order of creation.
    ///
    /// # Errors
    /// When they cannot be read; the text names the file.
    pub fn load(&self, whose: &AccountKey) -> Result<Vec<Cookie>, StateError> {
        self.try_load(whose)
            .map_err(|error| StateError::of(&self.path, &error))
    }

    fn try_load(&self, whose: &AccountKey) -> rusqlite::Result<Vec<Cookie>> {
        self.connection
            .prepare_cached(&format!(
                "SELECT {COLUMNS} FROM cookie WHERE site = ?1 AND account = ?2 ORDER BY created"
            ))?
            .query_map([&*whose.site, &*whose.account], |row| cookie(row, 0))?
            .collect()
    }

    /// All cookies, by account, then domain, path and name.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn list(&self) -> Result<Vec<(AccountKey, Cookie)>, StateError> {
        self.try_list()
            .map_err(|error| StateError::of(&self.path, &error))
    }

    fn try_list(&self) -> rusqlite::Result<Vec<(AccountKey, Cookie)>> {
        self.connection
            .prepare(&format!(
                "SELECT site, account, {COLUMNS} FROM cookie
                 ORDER BY site, account, domain, path, name, host_only"
            ))?
            .query_map([], |row| {
                let name = |index| row.get::<_, String>(index).map(Into::into);
                let whose = AccountKey {
                    site: name(0)?,
                    account: name(1)?,
                };
                Ok((whose, cookie(row, 2)?))
            })?
            .collect()
    }

    /// Store `set`, in place of those of the same key, and remove `removed`. `whole`: `set` is all there is.
    /// One commit.
    ///
    /// # Errors
    /// When nothing could be stored; the text names the file.
    pub fn store(
        &mut self,
        whose: &AccountKey,
        whole: bool,
        set: &[Cookie],
        removed: &[CookieKey],
    ) -> Result<(), StateError> {
        let done = immediate(&mut self.connection).and_then(|transaction| {
            if whole {
                clear(&transaction, whose)?;
            }
            remove(&transaction, whose, removed)?;
            insert(&transaction, whose, set)?;
            transaction.commit()
        });
        done.map_err(|error| StateError::of(&self.path, &error))
    }

    /// Remove all cookies of an account; how many there were.
    ///
    /// # Errors
    /// As [`store`](Self::store).
    pub fn clear(&mut self, whose: &AccountKey) -> Result<usize, StateError> {
        let done = immediate(&mut self.connection).and_then(|transaction| {
            let count = clear(&transaction, whose)?;
            transaction.commit().map(|()| count)
        });
        done.map_err(|error| StateError::of(&self.path, &error))
    }
}

fn cookie(row: &Row<'_>, from: usize) -> rusqlite::Result<Cookie> {
    let octets = |index| row.get::<_, Vec<u8>>(index).map(Bytes::from);
    let same_site: Option<String> = row.get(from + 7)?;
    Ok(Cookie {
        domain: row.get(from)?,
        host_only: row.get(from + 1)?,
        path: row.get(from + 2)?,
        name: octets(from + 3)?,
        value: octets(from + 4)?,
        secure: row.get(from + 5)?,
        http_only: row.get(from + 6)?,
        same_site: same_site.as_deref().and_then(SameSite::of),
        expires: row.get::<_, Option<i64>>(from + 8)?.map(UnixMillis),
        created: UnixMillis(row.get(from + 9)?),
        used: UnixMillis(row.get(from + 10)?),
    })
}

fn clear(transaction: &Transaction<'_>, whose: &AccountKey) -> rusqlite::Result<usize> {
    transaction
        .prepare_cached("DELETE FROM cookie WHERE site = ?1 AND account = ?2")?
        .execute([&*whose.site, &*whose.account])
}

fn remove(
    transaction: &Transaction<'_>,
    whose: &AccountKey,
    keys: &[CookieKey],
) -> rusqlite::Result<()> {
    let mut delete = transaction.prepare_cached(
        "DELETE FROM cookie WHERE site = ?1 AND account = ?2
         AND domain = ?3 AND host_only = ?4 AND path = ?5 AND name = ?6",
    )?;
    for key in keys {
        delete.execute(params![
            &*whose.site,
            &*whose.account,
            key.domain,
            key.host_only,
            key.path,
            &*key.name
        ])?;
    }
    Ok(())
}

fn insert(
    transaction: &Transaction<'_>,
    whose: &AccountKey,
    cookies: &[Cookie],
) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare_cached(&format!(
        "INSERT OR REPLACE INTO cookie (site, account, {COLUMNS})
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
    ))?;
    for cookie in cookies {
        insert.execute(params![
            &*whose.site,
            &*whose.account,
            cookie.domain,
            cookie.host_only,
            cookie.path,
            &*cookie.name,
            &*cookie.value,
            cookie.secure,
            cookie.http_only,
            cookie.same_site.map(SameSite::as_str),
            cookie.expires.map(|end| end.0),
            cookie.created.0,
            cookie.used.0
        ])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whose(site: &str) -> AccountKey {
        AccountKey::default_of(&site.into())
    }

    fn cookie(name: &[u8], value: &[u8], created: i64) -> Cookie {
        Cookie {
            name: Bytes::copy_from_slice(name),
            value: Bytes::copy_from_slice(value),
            domain: "h.example".to_owned(),
            host_only: true,
            path: "/".to_owned(),
            secure: true,
            http_only: false,
            same_site: Some(SameSite::None),
            expires: Some(UnixMillis(i64::MAX)),
            created: UnixMillis(created),
            used: UnixMillis(created + 1),
        }
    }

    #[test]
    fn cookies_survive_reopening_octet_by_octet_and_accounts_are_apart() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(
            StateCookies::open_existing(directory.path())
                .expect("looks")
                .is_none()
        );
        let mut store = StateCookies::open(directory.path()).expect("opens");
        let session = Cookie {
            expires: None,
            same_site: None,
            ..cookie(b"\xff a", b"\x80=\"", 2)
        };
        let both = [session, cookie(b"", b"v", 1)];
        store.store(&whose("s"), false, &both, &[]).expect("stores");
        store
            .store(&whose("t"), false, &both[..1], &[])
            .expect("stores");
        drop(store);
        let opened = StateCookies::open_existing(directory.path()).expect("opens");
        let mut store = opened.expect("a file");
        let [session, other] = both;
        assert_eq!(
            store.load(&whose("s")),
            Ok(vec![other.clone(), session.clone()])
        );
        assert_eq!(store.list().expect("lists").len(), 3);

        let changed = cookie(b"", b"w", 1);
        store
            .store(
                &whose("s"),
                false,
                std::slice::from_ref(&changed),
                &[session.key()],
            )
            .expect("stores");
        assert_eq!(store.load(&whose("s")), Ok(vec![changed]));
        store
            .store(&whose("s"), true, std::slice::from_ref(&session), &[])
            .expect("stores");
        assert_eq!(store.load(&whose("s")), Ok(vec![session.clone()]));
        assert_eq!(store.clear(&whose("s")), Ok(1));
        assert_eq!(store.load(&whose("s")), Ok(Vec::new()));
        assert_eq!(store.load(&whose("t")), Ok(vec![session]));
    }
}
