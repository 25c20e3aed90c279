//! Large blobs are streamed without buffering.

use crate::kills::Process;
use crate::support::TOKEN;
use bytes::Bytes;
use futures_util::stream;
use margrave_server::registry::Digest;

const PIECE_BYTES: usize = 1 << 20;
const PIECES: usize = 300;
/// Allowed additional memory of the process, with several large blobs in transfer.
const MORE_KIB_MAX: u64 = 48 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_large_blobs_without_buffering() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path()).await;
    let before = process.memory_peak();
    let piece: Vec<u8> = (0..PIECE_BYTES).map(|number| (number % 251) as u8).collect();
    let digest = Digest::sha256(&piece.repeat(PIECES));
    let piece = Bytes::from(piece);
    let transfers = ["a", "b"].map(|repository| {
        let (address, piece, digest) = (process.address.clone(), piece.clone(), digest.clone());
        tokio::spawn(async move {
            let http = reqwest::Client::new();
            let pieces = stream::iter(std::iter::repeat_n(piece, PIECES).map(Ok::<_, std::io::Error>));
            let url = format!("http://{address}/v2/{repository}/blobs/uploads/?digest={digest}");
            let push = http.post(url).bearer_auth(TOKEN).body(reqwest::Body::wrap_stream(pieces));
            assert_eq!(push.send().await.unwrap().status(), 201);
            let url = format!("http://{address}/v2/{repository}/blobs/{digest}");
            let mut pulled = http.get(url).bearer_auth(TOKEN).send().await.unwrap();
            let mut length = 0;
            while let Some(chunk) = pulled.chunk().await.unwrap() {
                length += chunk.len();
            }
            assert_eq!(length, PIECES * PIECE_BYTES);
        })
    });
    for transfer in transfers {
        transfer.await.unwrap();
    }
    let more = process.memory_peak() - before;
    assert!(more < MORE_KIB_MAX, "{more} KiB more than before");
    process.kill();
}
