//! The addresses that the benchmark of pages requests exist, so that a renamed page cannot go unmeasured.

use margrave_sim::bench::pages;
use margrave_sim::chaos::programs;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_address_of_the_page_benchmark_is_served() {
    let program = programs::find("margrave").unwrap();
    let checked = pages::check(&program).await.unwrap();
    assert!(checked > 60, "{checked}");
}
