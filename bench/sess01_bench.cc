// Measures chains and recalls of the sessions of 2004 (docs/sessions-2004.md, bench/README.md) at a running server.
//
//   sess01_bench chains 'nfs://server/dir?vers=4.1-sess01&proto=tcp|rdma|stepup' [--rounds N] [--delay MS,...]
//   sess01_bench recalls 'nfs://server/dir?vers=4.1-sess01&proto=tcp|rdma|stepup' [--rounds N]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>

#include "rdma/iwarp/provider.h"
#include "sess01_measurements.h"

namespace penstock::bench {

double Quantile(std::vector<double> values, double quantile) {
  const auto index = static_cast<size_t>(std::ceil(quantile * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(index > 0 ? index - 1 : 0);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

namespace {

int PrintError(const std::string& message) {
  fmt::print(stderr, "sess01_bench: {}\n", message);
  return 1;
}

// Runs a measurement to its end. Returns the exit code.
int Run(const std::string& text, const std::function<Task<client::Result<void>>(Surroundings, client::Url)>& measure) {
  const auto url = client::Url::Parse(text);
  if (!url) return PrintError(url.error().message);
  if (url->version != client::Version::kSess01) return PrintError(text + ": needs vers=4.1-sess01");
  Loop loop;
  Workers workers(4);
  std::optional<client::Result<void>> result;
  {
    rdma::iwarp::Options options;
    options.crc = url->crc;
    rdma::iwarp::Provider provider(loop, options);
    Spawn([](Task<client::Result<void>> task, Loop& on, std::optional<client::Result<void>>& out) -> Task<void> {
      out.emplace(co_await std::move(task));
      // The loop runs on until the connections that the measurement closed have ended.
      on.Finish();
    }(measure({loop, workers, provider}, *url), loop, result));
    loop.Run();
  }
  workers.Join();
  return *result ? 0 : PrintError(result->error().message);
}

int Main(int argc, char** argv) {
  CLI::App program("Measures chains and recalls of the sessions of 2004 at a running server");
  program.require_subcommand(1);
  std::string url;
  ChainOptions chain_options{.url = {}, .rounds = 15};
  RecallOptions recall_options{.url = {}, .rounds = 30};
  const auto add = [&](const char* name, const char* about, unsigned& rounds) {
    CLI::App* const command = program.add_subcommand(name, about);
    command->add_option("URL", url, "A directory, with vers=4.1-sess01; the program makes files in it and removes them")
        ->required();
    command->add_option("--rounds", rounds, "The rounds, which alternate between what is compared")
        ->check(CLI::Range(1u, 100000u))
        ->capture_default_str();
    return command;
  };
  CLI::App* const chains =
      add("chains", "A walk of 16 directories in one COMPOUND, chained, and step by step", chain_options.rounds);
  chains->add_option("--seconds", chain_options.seconds, "The time of each form in each round")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  chains->add_option("--delay", chain_options.delays, "Delays of the path to the server, in ms for each direction")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 10000.0))
      ->capture_default_str();
  CLI::App* const recalls = add("recalls", "The time until a delegation is recalled, by the place of the back channel",
                                recall_options.rounds);
  recalls->add_option("--depth", recall_options.depth, "READs of 256 KiB under way on a busy operations channel")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  CLI11_PARSE(program, argc, argv);
  return Run(url, [&](Surroundings where, client::Url parsed) {
    if (chains->parsed()) {
      chain_options.url = std::move(parsed);
      return MeasureChains(where, chain_options);
    }
    recall_options.url = std::move(parsed);
    return MeasureRecalls(where, recall_options);
  });
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) { return penstock::bench::Main(argc, argv); }
