//! The sessions of a node: one jar for each account, shared by all its jobs, read from and written to the state
//! directory by a thread of their own.
//!
//! What waits to be written is what the jars say has changed: bounded by them, and all of it goes into the next commit.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use slog::{Logger, info, warn};
use tokio::sync::{oneshot, watch};

use crate::exchange::cookies::{Jar, Session};
use crate::model::{AccountKey, CookiePolicy, Name, UnixMillis};
use crate::settings::Settings;
use crate::store::{StateCookies, StateError, StateFolder};

/// All sessions of a node. Clones are handles of the same; they may be used from any thread.
#[derive(Clone)]
pub struct Sessions(Arc<Inner>);

struct Inner {
    folder: StateFolder,
    log: Logger,
    /// The way to the thread, which starts when the first session is asked for and ends with the last handle.
    thread: Mutex<Option<Sender<Ask>>>,
}

/// The session of an account, as one user of it holds it.
#[derive(Clone)]
pub struct Held {
    session: Arc<Session>,
    /// Up to which version of the jar all was written, or could not be.
    written: watch::Receiver<u64>,
}

enum Ask {
    Open(AccountKey, oneshot::Sender<Result<Held, StateError>>),
    /// The jar of the account changed.
    Write(AccountKey),
    /// Tells when all that was asked before is done.
    Flush(oneshot::Sender<()>),
}

impl Sessions {
    /// The sessions that lie in `folder`. Nothing is made there before there is something to write.
    #[must_use]
    pub fn new(folder: StateFolder, log: Logger) -> Self {
        Self(Arc::new(Inner {
            folder,
            log,
            thread: Mutex::default(),
        }))
    }

    /// The session of an account, as it was left; a new one when there is none.
    ///
    /// # Errors
    /// When there is a state that cannot be read; the text names the file.
    pub async fn open(&self, whose: AccountKey) -> Result<Held, StateError> {
        let gone = || StateError("the thread of the sessions has ended".to_owned());
        let (answer, opened) = oneshot::channel();
        let started = self.start();
        started.map_err(|error| StateError(format!("no thread for the sessions: {error}")))?;
        if !self.0.tell(Ask::Open(whose, answer)) {
            return Err(gone());
        }
        opened.await.map_err(|_| gone())?
    }

    /// The session of a site as the settings want it: `None` where no cookies are kept.
    ///
    /// # Errors
    /// As [`open`](Self::open); the text also says how to go on without.
    pub async fn of_site(
        &self,
        site: &Name,
        settings: &Settings,
    ) -> Result<Option<Held>, StateError> {
        if settings.cookies_of(site) == CookiePolicy::Off {
            return Ok(None);
        }
        let opened = self.open(AccountKey::default_of(site)).await;
        opened.map(Some).map_err(|StateError(why)| {
            StateError(format!(
                "its cookies cannot be read: {why}; `sites.{site}.cookies = \"off\"` goes on without them"
            ))
        })
    }

    /// Waits until all that has changed so far is written.
    pub async fn flush(&self) {
        let (answer, done) = oneshot::channel();
        if self.0.tell(Ask::Flush(answer)) {
            // A thread that is gone has nothing left to write.
            let _ = done.await;
        }
    }

    fn start(&self) -> io::Result<()> {
        let mut thread = self.0.lock();
        if thread.is_some() {
            return Ok(());
        }
        let (sender, asked) = mpsc::channel();
        let writer = Writer {
            folder: self.0.folder.clone(),
            log: self.0.log.clone(),
            way: Arc::downgrade(&self.0),
            open: None,
            accounts: HashMap::new(),
            failing: false,
        };
        thread::Builder::new()
            .name("sessions".to_owned())
            .spawn(move || writer.run(&asked))?;
        *thread = Some(sender);
        Ok(())
    }
}

impl Inner {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Sender<Ask>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a thread that hears it.
    fn tell(&self, ask: Ask) -> bool {
        let thread = self.lock();
        thread
            .as_ref()
            .is_some_and(|thread| thread.send(ask).is_ok())
    }
}

impl Held {
    /// The session itself.
    #[must_use]
    pub fn session(&self) -> Arc<Session> {
        self.session.clone()
    }

    /// Waits until what has changed so far is written, or could not be: what an answer set must not be lost when the
    /// task that asked for it is done.
    pub async fn written(&self) {
        let version = self.session.with(|jar| jar.version());
        if *self.written.borrow() >= version {
            return;
        }
        let mut written = self.written.clone();
        // A thread that is gone writes nothing more.
        let _ = written.wait_for(|written| *written >= version).await;
    }
}

/// What the thread keeps of an account.
struct Account {
    session: Arc<Session>,
    /// A write is asked for already.
    told: Arc<AtomicBool>,
    written: watch::Sender<u64>,
}

struct Writer {
    folder: StateFolder,
    log: Logger,
    /// How the jars tell of changes; they must not keep the thread alive.
    way: Weak<Inner>,
    open: Option<StateCookies>,
    accounts: HashMap<AccountKey, Account>,
    /// The last write failed, and it was said.
    failing: bool,
}

impl Writer {
    fn run(mut self, asked: &Receiver<Ask>) {
        while let Ok(ask) = asked.recv() {
            match ask {
                Ask::Open(whose, answer) => {
                    // Who asked may have gone.
                    let _ = answer.send(self.open(whose));
                }
                Ask::Write(whose) => self.write(&whose),
                Ask::Flush(answer) => {
                    let _ = answer.send(());
                }
            }
        }
    }

    fn open(&mut self, whose: AccountKey) -> Result<Held, StateError> {
        // What nobody uses is read anew: it may have been imported meanwhile.
        self.accounts.retain(|_, account| {
            Arc::strong_count(&account.session) > 1
                || account.session.with(|jar| jar.version()) > *account.written.borrow()
        });
        if !self.accounts.contains_key(&whose) {
            let account = self.read(&whose)?;
            self.accounts.insert(whose.clone(), account);
        }
        let account = &self.accounts[&whose];
        Ok(Held {
            session: account.session.clone(),
            written: account.written.subscribe(),
        })
    }

    fn read(&mut self, whose: &AccountKey) -> Result<Account, StateError> {
        if self.open.is_none() {
            self.open = self.folder.existing_cookies()?;
        }
        let cookies = match &self.open {
            Some(open) => open.load(whose)?,
            None => Vec::new(),
        };
        if !cookies.is_empty() {
            info!(self.log, "goes on with a session"; "account" => %whose, "cookies" => cookies.len());
        }
        let jar = Jar::restored(cookies, UnixMillis::now());
        let (written, _) = watch::channel(jar.version());
        let told = Arc::new(AtomicBool::new(false));
        let changed = {
            let (way, whose, told) = (self.way.clone(), whose.clone(), told.clone());
            move || {
                if !told.swap(true, Ordering::AcqRel)
                    && let Some(way) = way.upgrade()
                {
                    way.tell(Ask::Write(whose.clone()));
                }
            }
        };
        Ok(Account {
            session: Arc::new(Session::new(jar, changed)),
            told,
            written,
        })
    }

    fn write(&mut self, whose: &AccountKey) {
        let Some(account) = self.accounts.get(whose) else {
            return;
        };
        // From here on a change asks for another write.
        account.told.store(false, Ordering::Release);
        let session = account.session.clone();
        let (changes, version) = session.with(|jar| (jar.take_changes(), jar.version()));
        let stored = match changes.is_empty() {
            true => Ok(()),
            false => self
                .opened()
                .and_then(|open| open.store(whose, changes.whole, &changes.set, &changes.removed)),
        };
        let reached = match stored {
            Ok(()) => {
                self.failing = false;
                version
            }
            Err(why) => {
                self.open = None;
                if !std::mem::replace(&mut self.failing, true) {
                    warn!(self.log, "cookies cannot be written; they end with this process";
                        "account" => %whose, "why" => %why);
                }
                session.with(|jar| {
                    jar.give_back(changes);
                    jar.version()
                })
            }
        };
        if let Some(account) = self.accounts.get(whose) {
            account.written.send_replace(reached);
        }
    }

    fn opened(&mut self) -> Result<&mut StateCookies, StateError> {
        if self.open.is_none() {
            self.open = Some(self.folder.cookies()?);
        }
        self.open
            .as_mut()
            .ok_or_else(|| StateError("the state directory is not open".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use slog::{Discard, o};
    use url::Url;

    use super::*;

    fn sessions(directory: &std::path::Path) -> Sessions {
        let folder = StateFolder::of(Some(directory.to_owned()));
        Sessions::new(folder, Logger::root(Discard, o!()))
    }

    fn whose(site: &str) -> AccountKey {
        AccountKey::default_of(&site.into())
    }

    fn set(held: &Held, line: &str) {
        let url = Url::parse("http://h.example/").expect("a URL");
        let headers = crate::model::Headers(vec![(
            "set-cookie".to_owned(),
            bytes::Bytes::copy_from_slice(line.as_bytes()),
        )]);
        held.session().heard(&url, &headers);
    }

    fn sent(held: &Held) -> String {
        let url = Url::parse("http://h.example/").expect("a URL");
        let now = UnixMillis::now();
        let header = held.session().with(|jar| jar.header(&url, now, |_| false));
        String::from_utf8(header.unwrap_or_default()).expect("text")
    }

    #[tokio::test]
    async fn nothing_is_made_before_there_is_a_cookie_and_then_it_is_on_disk() {
        let parent = tempfile::tempdir().expect("a directory");
        let directory = parent.path().join("state");
        let first = sessions(&directory);
        let held = first.open(whose("s")).await.expect("opens");
        held.written().await;
        first.flush().await;
        assert!(!directory.exists());
        set(&held, "a=1");
        held.written().await;
        // As after a kill: nothing was closed or flushed.
        let again = sessions(&directory).open(whose("s")).await.expect("opens");
        assert_eq!(sent(&again), "a=1");
        let other = sessions(&directory).open(whose("t")).await.expect("opens");
        assert_eq!(sent(&other), "", "accounts are apart");
    }

    #[tokio::test]
    async fn those_who_hold_one_account_share_its_jar() {
        let directory = tempfile::tempdir().expect("a directory");
        let sessions = sessions(directory.path());
        let one = sessions.open(whose("s")).await.expect("opens");
        let two = sessions.open(whose("s")).await.expect("opens");
        set(&one, "a=1");
        assert_eq!(sent(&two), "a=1");
    }

    #[tokio::test]
    async fn what_nobody_holds_is_read_anew() {
        let directory = tempfile::tempdir().expect("a directory");
        let sessions = sessions(directory.path());
        let held = sessions.open(whose("s")).await.expect("opens");
        set(&held, "a=1");
        held.written().await;
        drop(held);
        let mut disk = StateCookies::open(directory.path()).expect("opens");
        disk.clear(&whose("s")).expect("clears");
        let held = sessions.open(whose("s")).await.expect("opens");
        assert_eq!(sent(&held), "");
    }

    #[tokio::test]
    async fn a_state_that_cannot_be_written_holds_nobody_up() {
        let parent = tempfile::tempdir().expect("a directory");
        let directory = parent.path().join("file");
        std::fs::write(&directory, "no directory").expect("writes");
        let sessions = sessions(&directory);
        let held = sessions.open(whose("s")).await;
        let error = held.err().map(|why| why.to_string());
        assert!(error.is_none_or(|why| why.contains("file")));

        let none = Sessions::new(StateFolder::nowhere(), Logger::root(Discard, o!()));
        let held = none.open(whose("s")).await.expect("a session in memory");
        set(&held, "a=1");
        held.written().await;
        none.flush().await;
        assert_eq!(sent(&held), "a=1");
    }

    #[tokio::test]
    async fn a_state_that_cannot_be_read_is_an_error_that_names_it() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(
            directory.path().join("state.db"),
            "this is no database, by any means",
        )
        .expect("writes");
        let opened = sessions(directory.path()).open(whose("s")).await;
        let error = opened.err().expect("not a database").to_string();
        assert!(error.contains("state.db"), "{error}");
    }
}
