//! The calls that go in one batch.

use super::*;

type Hears = oneshot::Receiver<KeyAnswer<u8>>;

/// Callers with these keys that have come so long ago.
fn come(keys: &[u8], ago: Duration) -> (VecDeque<WaitingCall<u8>>, Vec<Hears>) {
    let since = Instant::now() - ago;
    let caller = |key: &u8| {
        let (told, hears) = oneshot::channel();
        (WaitingCall { key: [*key; 32], since, told }, hears)
    };
    keys.iter().map(caller).unzip()
}

fn keys<'a>(callers: impl IntoIterator<Item = &'a WaitingCall<u8>>) -> Vec<u8> {
    callers.into_iter().map(|caller| caller.key[0]).collect()
}

/// The other calls of the key wait, and stay before new ones.
#[test]
fn b12_a_batch_has_a_key_once() {
    let (mut waiting, _hears) = come(&[7, 7, 3, 7, 3, 5], Duration::ZERO);
    let mut went = || {
        let batch = take_batch(&mut waiting);
        (batch.map(|batch| keys(batch.values())), keys(&waiting))
    };
    assert_eq!(went(), (Some(vec![3, 5, 7]), vec![7, 7, 3]));
    assert_eq!(went(), (Some(vec![3, 7]), vec![7]));
    assert_eq!(went(), (Some(vec![7]), vec![]));
    assert_eq!(went(), (None, vec![]));
}

#[test]
fn e16_statements_have_32_callers_at_most() {
    let (mut waiting, _hears) = come(&(0..40).collect::<Vec<_>>(), Duration::ZERO);
    assert_eq!(take_batch(&mut waiting).unwrap().len(), 32);
    assert_eq!(keys(&waiting), (32..40).collect::<Vec<_>>());
}

/// Such a call is refused before the database is asked.
#[test]
fn e16_no_call_waits_over_three_seconds() {
    let (mut waiting, hears) = come(&[1, 1, 2], Duration::from_millis(3_001));
    let (new, mut hear) = come(&[1], Duration::ZERO);
    waiting.extend(new);
    assert_eq!(keys(take_batch(&mut waiting).unwrap().values()), [1]);
    for mut old in hears {
        assert!(matches!(old.try_recv(), Ok(Err(Error::Unavailable(_)))));
    }
    assert!(hear[0].try_recv().is_err(), "nobody has asked about it yet");
}

/// An answer reaches its own caller only.
#[test]
fn a_failure_reaches_every_caller() {
    let (mut waiting, mut hears) = come(&[2, 1], Duration::ZERO);
    answer_batch(take_batch(&mut waiting).unwrap(), Ok(vec![Some(10), None]));
    assert_eq!(hears.remove(0).try_recv(), Ok(Ok(None)));
    assert_eq!(hears.remove(0).try_recv(), Ok(Ok(Some(10))));
    let (mut waiting, hears) = come(&[2, 1], Duration::ZERO);
    answer_batch(take_batch(&mut waiting).unwrap(), Err(Error::Unavailable(String::new())));
    for mut each in hears {
        assert_eq!(each.try_recv(), Ok(Err(Error::Unavailable(String::new()))));
    }
}
