//! A bucket of S3 as the store of an archive.
//!
//! A file is one object. It is put whole, under the condition that no object has its name, so no
//! object is ever replaced or deleted. A file is in memory until it is put: a segment of a million
//! events has about 140 MB.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, ErrorKind};
use std::iter::successors;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, Checksum};
use object_store::path::Path as ObjectPath;
use object_store::{
    ClientConfigKey, Error as S3Error, ObjectStore, ObjectStoreExt, PutMode, PutPayloadMut,
    RetryConfig,
};
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

use super::store::{ArchiveStore, KeptFile, UnnamedFile};
use crate::error::AuditError;

/// The time of one request that reads. The largest one reads some megabytes.
const READ_TIME_MAX: &str = "30s";

/// The time of one request that writes: 140 MB at two megabits a second.
const WRITE_TIME_MAX: &str = "600s";

/// The time for new tries of a request that fails.
const RETRY_TIME_MAX: Duration = Duration::from_secs(30);

/// Bytes of one allocation of a file in memory.
const CHUNK_BYTES: usize = 1 << 20;

/// The advice after a refusal.
const DENIED: &str = "access is denied: AWS_ACCESS_KEY_ID or the role must be allowed to list the \
                      bucket, and to get and put its objects";

/// The advice after any other failure.
const FAILING: &str = "the store fails: check AWS_ENDPOINT_URL, AWS_REGION and the credentials, or \
                       try later";

/// A bucket, and the part before the names of an archive's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketPlace {
    bucket: String,
    prefix: ObjectPath,
}

/// The text is not `s3://`, a bucket and a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write s3://, the name of a bucket, and a prefix if you like: s3://bucket/prefix")]
pub struct NoBucketPlace;

/// The access to buckets, as the environment of a process gives it.
#[derive(Clone)]
pub struct BucketAccess {
    /// Variables like `AWS_ACCESS_KEY_ID`.
    pub variables: Vec<(String, String)>,
    /// The time for new tries of a request that fails.
    pub retry_time_max: Duration,
}

impl BucketPlace {
    /// Reads a URL of the form `s3://bucket/prefix`.
    ///
    /// # Errors
    /// [`NoBucketPlace`], also if the URL has a key, a port or a query.
    pub fn from_url(url: &str) -> Result<Self, NoBucketPlace> {
        let rest = url.strip_prefix("s3://").ok_or(NoBucketPlace)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(is_plain) || prefix.contains(['?', '#']) {
            return Err(NoBucketPlace);
        }
        let prefix = ObjectPath::parse(prefix).map_err(|_| NoBucketPlace)?;
        Ok(Self { bucket: bucket.to_owned(), prefix })
    }

    fn object(&self, name: &str) -> ObjectPath {
        self.prefix.clone().join(name)
    }
}

impl fmt::Display for BucketPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bucket, prefix } = self;
        if prefix.is_root() {
            write!(f, "s3://{bucket}")
        } else {
            write!(f, "s3://{bucket}/{prefix}")
        }
    }
}

impl BucketAccess {
    /// The access by the variables of an environment that begin with `AWS_`.
    #[must_use]
    pub fn from_variables(variables: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let texts = variables.filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| name.starts_with("AWS_"))?;
            Some((name, value.into_string().ok()?))
        });
        Self { variables: texts.collect(), retry_time_max: RETRY_TIME_MAX }
    }

    /// A client whose requests take this time at most, unless a variable says otherwise.
    fn client(&self, bucket: &str, time_max: &str) -> Result<AmazonS3, S3Error> {
        let retry = RetryConfig { retry_timeout: self.retry_time_max, ..RetryConfig::default() };
        let timeout = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
        // A bucket with object lock takes no object without a checksum.
        let mut builder = AmazonS3Builder::new()
            .with_retry(retry)
            .with_checksum_algorithm(Checksum::SHA256)
            .with_config(timeout, time_max);
        for (name, value) in &self.variables {
            if let Ok(key) = name.to_ascii_lowercase().parse() {
                builder = builder.with_config(key, value);
            }
        }
        builder.with_bucket_name(bucket).build()
    }
}

/// The objects of a bucket under a prefix.
#[derive(Clone)]
pub(super) struct BucketStore {
    place: BucketPlace,
    reader: AmazonS3,
    writer: AmazonS3,
    runtime: Handle,
    stop: CancellationToken,
}

/// An object before it is put.
struct UnputObject {
    store: BucketStore,
    content: PutPayloadMut,
}

impl BucketStore {
    /// A store of the runtime in which this function is called. It asks the bucket nothing yet.
    pub(super) fn new(place: BucketPlace, access: &BucketAccess) -> Result<Self, AuditError> {
        let client = |time_max| {
            let client = access.client(&place.bucket, time_max);
            client.map_err(|error| AuditError::File {
                path: place.to_string().into(),
                error: io::Error::other(error),
            })
        };
        let reader = client(READ_TIME_MAX)?;
        let writer = client(WRITE_TIME_MAX)?;
        let runtime = Handle::current();
        Ok(Self { place, reader, writer, runtime, stop: CancellationToken::new() })
    }

    /// Waits for the answer to a request about an object.
    fn wait_for<T>(
        &self,
        name: &str,
        request: impl Future<Output = Result<T, S3Error>>,
    ) -> Result<T, AuditError> {
        let answer = self.stop.run_until_cancelled(request);
        match block_in_place(|| self.runtime.block_on(answer)) {
            None => Err(AuditError::Stopped),
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) => {
                Err(AuditError::File { path: self.locate(name), error: io_error(&error) })
            }
        }
    }
}

impl fmt::Debug for BucketStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketStore").field("place", &self.place).finish_non_exhaustive()
    }
}

impl ArchiveStore for BucketStore {
    fn locate(&self, name: &str) -> PathBuf {
        format!("{}/{name}", self.place).into()
    }

    fn list_names(&self) -> Result<Vec<String>, AuditError> {
        let prefix = Some(&self.place.prefix).filter(|prefix| !prefix.is_root());
        let listed = self.wait_for("", self.reader.list_with_delimiter(prefix))?;
        let name = |object: &object_store::ObjectMeta| Some(object.location.filename()?.to_owned());
        Ok(listed.objects.iter().filter_map(name).collect())
    }

    fn size(&self, name: &str) -> Result<u64, AuditError> {
        Ok(self.wait_for(name, self.reader.head(&self.place.object(name)))?.size)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, AuditError> {
        let object = self.place.object(name);
        let read = async { self.reader.get(&object).await?.bytes().await };
        Ok(self.wait_for(name, read)?.into())
    }

    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, AuditError> {
        Ok(self.wait_for(name, self.reader.get_range(&self.place.object(name), range))?.into())
    }

    fn begin_file(&self, _: u64) -> Result<Box<dyn UnnamedFile>, AuditError> {
        let content = PutPayloadMut::new().with_block_size(CHUNK_BYTES);
        Ok(Box::new(UnputObject { store: self.clone(), content }))
    }

    /// An object is put whole, so there are none.
    fn remove_drafts(&self) -> Result<(), AuditError> {
        Ok(())
    }

    fn that_stops(&self, stop: &CancellationToken) -> Arc<dyn ArchiveStore> {
        Arc::new(Self { stop: stop.clone(), ..self.clone() })
    }
}

impl UnnamedFile for UnputObject {
    fn write(&mut self, bytes: &[u8]) -> Result<(), AuditError> {
        self.content.extend_from_slice(bytes);
        Ok(())
    }

    fn keep_as(self: Box<Self>, name: &str) -> Result<KeptFile, AuditError> {
        let Self { store, content } = *self;
        let object = store.place.object(name);
        let put = async {
            match store.writer.put_opts(&object, content.freeze(), PutMode::Create.into()).await {
                Ok(_) => Ok(KeptFile::New),
                // A try that was cut off may have put it, too.
                Err(S3Error::AlreadyExists { .. }) => Ok(KeptFile::NameTaken),
                Err(error) => Err(error),
            }
        };
        store.wait_for(name, put)
    }
}

/// An error of S3 as one of a file, with what an operator can do.
fn io_error(error: &S3Error) -> io::Error {
    let mut text = error.to_string();
    let causes = successors(error.source(), |&cause| cause.source());
    for cause in causes.map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    // The error of a list has its status in its text only.
    let has_status = |status: &str| text.contains(&format!("status code: {status} "));
    let is_denied = matches!(error, S3Error::PermissionDenied { .. })
        || matches!(error, S3Error::Unauthenticated { .. })
        || has_status("403")
        || has_status("401");
    let (kind, advice) = if text.contains("NoSuchBucket") {
        (ErrorKind::Other, "there is no such bucket: make it, or name another one")
    } else if matches!(error, S3Error::NotFound { .. }) {
        (ErrorKind::NotFound, "there is no such object")
    } else if is_denied {
        (ErrorKind::PermissionDenied, DENIED)
    } else {
        (ErrorKind::Other, FAILING)
    };
    // The answers of S3 are XML in several lines.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    io::Error::new(kind, format!("{advice} ({text})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_a_url() {
        for url in ["s3://bucket", "s3://bucket/a", "s3://my.bucket-1/a/b c"] {
            assert_eq!(BucketPlace::from_url(url).map(|place| place.to_string()), Ok(url.into()));
        }
        let place = BucketPlace::from_url("s3://bucket/a/").unwrap();
        assert_eq!(place.object("1.json").as_ref(), "a/1.json");
        assert_eq!(BucketPlace::from_url("s3://bucket/").unwrap().object("1").as_ref(), "1");
        for url in [
            "",
            "s3:",
            "s3://",
            "s3:///a",
            "s3://key:secret@b",
            "s3://b:9000",
            "s3://b/a//b",
            "s3://b/?a",
            "http://b",
        ] {
            assert_eq!(BucketPlace::from_url(url), Err(NoBucketPlace), "{url}");
        }
    }

    #[test]
    fn only_variables_of_s3_are_read() {
        let variables = [("AWS_REGION", "eu-west-1"), ("HOME", "/root")];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let access = BucketAccess::from_variables(variables.into_iter());
        assert_eq!(access.variables, [("AWS_REGION".to_owned(), "eu-west-1".to_owned())]);
    }
}
