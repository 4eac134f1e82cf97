//! The file of the database: what can be opened, and what is left alone.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, ReadableDatabase, StorageError};
use rustix::fs::{Access, access};

use crate::extras::trend::seconds_since_1970;

/// Memory for pages of the file.
const CACHE_BYTES: usize = 2 * 1024 * 1024;

/// First bytes of a file of `redb`.
const MAGIC: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";

/// First bytes after a crash while it was created.
const NEVER_WRITTEN: &[u8] = &[0; MAGIC.len()];

/// Reason why the database cannot be used.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Unusable {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("its folder cannot be written to: {0}")]
    Folder(io::Error),
    #[error("it is a symbolic link, which is not followed")]
    Link,
    #[error("it is not a regular file")]
    NotAFile,
    #[error("another instance uses it")]
    InUse,
    #[error("it is not a database of this service")]
    Foreign,
    #[error("it is damaged")]
    Damaged,
    #[error("{0}")]
    Database(String),
}

impl From<redb::Error> for Unusable {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::Io(error) => Self::Io(error),
            redb::Error::Corrupted(_) => Self::Damaged,
            redb::Error::TableTypeMismatch { .. } => Self::Foreign,
            error => Self::Database(error.to_string()),
        }
    }
}

/// Opens a regular file. Never follows a link.
fn open_regular(path: &Path, options: &mut OpenOptions) -> Result<File, Unusable> {
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = file.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => Unusable::Link,
        Some(libc::EISDIR) => Unusable::NotAFile,
        _ => Unusable::Io(error),
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(Unusable::NotAFile) }
}

/// Opens the database, or creates one. Never follows a link, and changes nothing but a database.
pub(super) fn open_file(path: &Path) -> Result<Database, Unusable> {
    let file =
        open_regular(path, OpenOptions::new().read(true).write(true).create(true).truncate(false))?;
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
    let backend = FileBackend::new(file.try_clone()?);
    let database = backend.and_then(|backend| builder.create_with_backend(backend));
    database.map_err(|error| unusable(error, &file))
}

/// Looks at a file without a change of it. Returns a sentence for the operator, if there is something to say.
///
/// # Errors
///
/// Fails if the service cannot use it.
pub(crate) fn check_file(path: &Path) -> Result<Option<&'static str>, Unusable> {
    let file = match open_regular(path, OpenOptions::new().read(true)) {
        Err(Unusable::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            access(folder.unwrap_or(Path::new(".")), Access::WRITE_OK | Access::EXEC_OK)
                .map_err(|error| Unusable::Folder(error.into()))?;
            return Ok(None);
        }
        file => file?,
    };
    access(path, Access::WRITE_OK).map_err(io::Error::from)?;
    if file.metadata()?.len() == 0 {
        return Ok(None);
    }
    let backend = FileBackend::new(file.try_clone()?);
    let database = backend.and_then(|backend| Builder::new().open_read_only_with_backend(backend));
    match database.map_err(|error| unusable(error, &file)) {
        Ok(database) => {
            super::check_tables(&database.begin_read().map_err(redb::Error::from)?)?;
            Ok(None)
        }
        Err(Unusable::InUse) => Ok(Some("an instance uses the database")),
        Err(Unusable::Damaged) => {
            Ok(Some("the database was not closed; it is repaired or renamed at the start"))
        }
        Err(reason) => Err(reason),
    }
}

/// Tells a damaged database from a file of another program by its first bytes. A file that is read only cannot be repaired.
fn unusable(error: DatabaseError, file: &File) -> Unusable {
    let mut bytes = [0; MAGIC.len()];
    let length = file.read_at(&mut bytes, 0).unwrap_or_default();
    // `None`: it is empty, or cannot be read.
    let first_bytes = bytes.get(..length).filter(|bytes| !bytes.is_empty());
    match (error, first_bytes) {
        (DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch, _) => {
            Unusable::InUse
        }
        (DatabaseError::Storage(StorageError::Io(error)), Some(MAGIC) | None)
            if error.kind() != io::ErrorKind::UnexpectedEof =>
        {
            Unusable::Io(error)
        }
        (DatabaseError::Storage(_) | DatabaseError::RepairAborted, Some(MAGIC | NEVER_WRITTEN)) => {
            Unusable::Damaged
        }
        (_, Some(_)) => Unusable::Foreign,
        (error, None) => Unusable::Database(error.to_string()),
    }
}

/// Renames a damaged file. Returns its new name.
pub(super) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let renamed = path.with_added_extension(format!("damaged-{}", seconds_since_1970()));
    std::fs::rename(path, &renamed)?;
    Ok(renamed)
}
