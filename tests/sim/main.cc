// sim_schedules runs simulations, one for each seed. The seed alone determines a simulation. If a simulation detects an
// error, the program runs it again with a trace, prints the trace and exits. `sim_schedules --seed N --trace` repeats
// that run at any time.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "simulation.h"

namespace penstock::simulation {
namespace {

struct Arguments {
  uint64_t seed = 1;
  uint64_t count = 1;
  bool trace = false;
  bool twice = false;
  bool sess01 = false;
  std::string capture;
};

void Print(const Simulation& simulation, const Schedule& schedule) {
  fmt::print("{}\n{}", schedule.ToString(), simulation.world().TraceText());
  for (const std::string& finding : simulation.findings().lines()) fmt::print("FOUND: {}\n", finding);
}

bool SameAgain(const Schedule& schedule, uint64_t seed) {
  std::vector<std::string> traces[2];
  for (auto& trace : traces) {
    Simulation simulation(schedule, seed, true);
    simulation.Run();
    trace = simulation.world().trace();
  }
  const auto [one, other] = std::ranges::mismatch(traces[0], traces[1]);
  if (one == traces[0].end() && other == traces[1].end()) return true;
  fmt::print("seed {} gives two different runs:\n{}\n{}\n", seed, one == traces[0].end() ? "the end" : *one,
             other == traces[1].end() ? "the end" : *other);
  return false;
}

// Opens the capture file of one seed in the folder that `--capture` names. Returns null without that option.
std::unique_ptr<rdma::trace::File> OpenCapture(const Arguments& arguments, uint64_t seed) {
  if (arguments.capture.empty()) return nullptr;
  auto file = rdma::trace::File::Open(fmt::format("{}/{}.pcapng", arguments.capture, seed), Duration::zero());
  if (file) return *std::move(file);
  fmt::print(stderr, "{}\n", file.error().message);
  std::exit(2);
}

int Run(const Arguments& arguments) {
  Totals all;
  for (uint64_t seed = arguments.seed; seed < arguments.seed + arguments.count; ++seed) {
    const Schedule schedule(seed, arguments.sess01 ? Schedule::Family::kSess01 : Schedule::Family::kRfc);
    const auto capture = OpenCapture(arguments, seed);
    auto simulation = std::make_unique<Simulation>(schedule, seed, arguments.trace, capture.get());
    if (arguments.trace) simulation->TraceLog();
    simulation->Run();
    if (arguments.trace) Print(*simulation, schedule);
    if (!simulation->findings().empty()) {
      const std::string found = simulation->findings().lines().front();
      if (!arguments.trace) {
        simulation.release();
        simulation = std::make_unique<Simulation>(schedule, seed, true);
        simulation->TraceLog();
        simulation->Run();
        Print(*simulation, schedule);
      }
      fmt::print("seed {} fails: {}\nrepeat it: sim_schedules --seed {}{} --trace\n", seed, found, seed,
                 arguments.sess01 ? " --sess01" : "");
      // Coroutines that wait for ever cannot be destroyed in order, so the process ends here without destructors.
      std::fflush(stdout);
      std::_Exit(1);
    }
    if (arguments.twice && !SameAgain(schedule, seed)) return 1;
    const Totals totals = simulation->totals();
    all.calls += totals.calls;
    all.events += totals.events;
    all.connections += totals.connections;
    all.refusals += totals.refusals;
    all.restarts += totals.restarts;
  }
  fmt::print(
      "{} schedules from seed {}: {} calls, {} connections, {} restarts, {} refused accesses, {} events; no "
      "errors\n",
      arguments.count, arguments.seed, all.calls, all.connections, all.restarts, all.refusals, all.events);
  return 0;
}

}  // namespace
}  // namespace penstock::simulation

int main(int argc, char** argv) {
  penstock::simulation::Arguments arguments;
  CLI::App app("Simulates clients and a server in virtual time, by random schedules, and checks the results");
  app.add_option("--seed", arguments.seed, "the seed of the first schedule")->capture_default_str();
  app.add_option("--count", arguments.count, "the number of schedules; their seeds are successive")
      ->capture_default_str();
  app.add_option("--capture", arguments.capture, "write a file for Wireshark into this folder for each schedule");
  app.add_flag("--sess01", arguments.sess01, "the sessions of 2004 instead of NFS versions 3 and 4.1");
  app.add_flag("--trace", arguments.trace, "print every event");
  app.add_flag("--twice", arguments.twice, "run each schedule twice more and compare the traces");
  CLI11_PARSE(app, argc, argv);
  return penstock::simulation::Run(arguments);
}
