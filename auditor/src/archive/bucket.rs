//! A bucket of S3 as the store of an archive.
//!
//! A file is one object. It is put whole, under the condition that no object has its name, so no
//! object is ever replaced or deleted. A file is in memory until it is put: a segment of a million
//! events has about 140 MB.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::iter::successors;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3;
use object_store::{
    ClientOptions, Error as S3Error, HeaderMap, HeaderValue, ObjectStore, ObjectStoreExt, PutMode,
    PutPayloadMut,
};
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

use super::access::{BucketAccess, BucketPlace};
use super::store::{ArchiveStore, KeptFile, UnnamedFile};
use crate::error::AuditError;

/// The time of one request that reads. The largest one reads some megabytes.
const READ_TIME_MAX: Duration = Duration::from_secs(30);

/// The time of one request that writes: 140 MB at two megabits a second.
const WRITE_TIME_MAX: Duration = Duration::from_secs(600);

/// Bytes of one allocation of a file in memory.
const CHUNK_BYTES: usize = 1 << 20;

/// The advice after a refusal.
const DENIED: &str = "access is denied: AWS_ACCESS_KEY_ID or the role must be allowed to list the \
                      bucket, and to get and put its objects";

/// The advice after any other failure.
const FAILING: &str = "the store fails: check AWS_ENDPOINT_URL, AWS_REGION and the credentials, or \
                       try later";

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
        let client = |options| {
            let client = access.client(&place.bucket, options);
            client.map_err(|why| AuditError::unreadable_file(place.to_string().as_ref(), &why))
        };
        // A bucket with object lock takes no object without a checksum, and may ask for its kind.
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-sdk-checksum-algorithm", HeaderValue::from_static("SHA256"));
        let reader = client(ClientOptions::new().with_timeout(READ_TIME_MAX))?;
        let writer =
            ClientOptions::new().with_timeout(WRITE_TIME_MAX).with_default_headers(headers);
        let writer = client(writer)?;
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
