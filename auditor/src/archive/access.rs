//! The place of an archive in S3, and the access to it.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, Checksum};
use object_store::path::Path as ObjectPath;
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use url::Url;

/// The time for new tries of a request that fails.
const RETRY_TIME_MAX: Duration = Duration::from_secs(30);

/// A bucket, and the part before the names of an archive's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketPlace {
    pub(super) bucket: String,
    pub(super) prefix: ObjectPath,
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

    /// The key of an object with this name.
    pub(super) fn object(&self, name: &str) -> ObjectPath {
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

    /// A client with these options, unless a variable says otherwise.
    pub(super) fn client(&self, bucket: &str, options: ClientOptions) -> Result<AmazonS3, String> {
        let mut builder = AmazonS3Builder::new()
            .with_retry(RetryConfig {
                // The time bounds them.
                max_retries: 1_000,
                retry_timeout: self.retry_time_max,
                backoff: BackoffConfig::default(),
            })
            .with_checksum_algorithm(Checksum::SHA256)
            .with_client_options(options);
        let is_region = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        for (name, value) in &self.variables {
            let Ok(key) = name.to_ascii_lowercase().parse() else { continue };
            // A client panics over a URL that is none.
            let value = match key {
                AmazonS3ConfigKey::Endpoint | AmazonS3ConfigKey::S3Endpoint => {
                    let url = Url::parse(value).ok().filter(Url::has_host);
                    url.ok_or_else(|| format!("{name} is no URL of a server"))?.into()
                }
                AmazonS3ConfigKey::Region | AmazonS3ConfigKey::DefaultRegion
                    if !value.bytes().all(is_region) =>
                {
                    return Err(format!("{name} is no region"));
                }
                _ => value.clone(),
            };
            builder = builder.with_config(key, value);
        }
        builder.with_bucket_name(bucket).build().map_err(|error| error.to_string())
    }
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

    #[test]
    fn an_unusable_variable_is_named() {
        for (name, value) in [
            ("AWS_ENDPOINT", "localhost:9000"),
            ("AWS_ENDPOINT_URL", "nonsense"),
            ("AWS_ENDPOINT_URL_S3", ""),
            ("AWS_REGION", "eu west"),
        ] {
            let variables = [(name.into(), value.into())];
            let access = BucketAccess::from_variables(variables.into_iter());
            let refused = access.client("bucket", ClientOptions::new()).unwrap_err();
            assert!(refused.starts_with(&format!("{name} is no ")), "{refused}");
        }
    }
}
