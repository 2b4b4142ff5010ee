// penstock doctor: walks the way to a file on a server, and says where and why it fails.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/attributes_json.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/output.h"
#include "cli/printable.h"
#include "client/doctor.h"

namespace penstock::cli {
namespace {

using client::Result;
using client::Step;

struct DoctorOptions : ClientOptions {
  std::string url;
  bool json = false;
};

std::string_view WordOf(Step::Outcome outcome) {
  switch (outcome) {
    case Step::Outcome::kOk:
      return "ok";
    case Step::Outcome::kFailed:
      return "failed";
    case Step::Outcome::kSkipped:
      return "skipped";
  }
  return "";
}

double MillisecondsOf(Duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

Result<void> ShowText(const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    const std::string took =
        step.outcome == Step::Outcome::kSkipped ? "" : fmt::format("{:.1f} ms", MillisecondsOf(step.took));
    const std::string line =
        fmt::format("{:<16} {:<8} {:>10}  {}", step.name, WordOf(step.outcome), took, Printable(step.detail));
    PENSTOCK_CHECK(Print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1)));
  }
  for (const Step& step : steps) {
    if (!step.advice.empty()) PENSTOCK_CHECK(Print("Try: {}\n", Printable(step.advice)));
  }
  return {};
}

Result<void> ShowJson(const client::Url& url, const std::vector<Step>& steps, bool ok) {
  OrderedJson list = OrderedJson::array();
  for (const Step& step : steps) {
    OrderedJson each{{"step", step.name}, {"outcome", WordOf(step.outcome)}};
    if (step.outcome != Step::Outcome::kSkipped) {
      each["ms"] = MillisecondsOf(step.took);
      each["detail"] = step.detail;
    }
    if (!step.advice.empty()) each["advice"] = step.advice;
    list.push_back(std::move(each));
  }
  const OrderedJson report{{"host", url.host}, {"path", url.path}, {"ok", ok}, {"steps", std::move(list)}};
  return Print("{}\n", report.dump(2, ' ', false, OrderedJson::error_handler_t::replace));
}

Task<Result<void>> DoctorTask(ClientRuntime& runtime, const client::Url& url, bool json, bool& ok) {
  const std::vector<Step> steps =
      co_await client::Examine(runtime.loop(), runtime.workers(), url, runtime.MountOptionsFor(url));
  ok = true;
  for (const Step& step : steps) ok &= step.outcome == Step::Outcome::kOk;
  co_return json ? ShowJson(url, steps, ok) : ShowText(steps);
}

// A step that fails has its line among the output, and none on stderr.
int Diagnose(const DoctorOptions& options) {
  const auto url = ParseUrl(options.url, options);
  if (!url) return PrintUsageError(url.error().message);
  ClientRuntime runtime(options.trace, options.rdma, options.kerberos);
  bool ok = false;
  const int code = runtime.Run(DoctorTask(runtime, *url, options.json, ok));
  if (ok) return code;
  // The lines that tell the failure must not be lost unnoticed.
  (void)PrintOutput("");
  return 1;
}

}  // namespace

Command AddDoctor(CLI::App& program) {
  CLI::App* const command =
      program.add_subcommand("doctor", "Find out why a file on an NFS server cannot be reached, step by step");
  const auto options = std::make_shared<DoctorOptions>();
  command->add_option("URL", options->url, "A file or a directory")->required();
  command->add_flag("--json", options->json, "Print JSON");
  AddClientOptions(*command, *options);
  SetFooter(
      *command,
      "Each step is a line: ok, failed or skipped, the time that it took, and what it found. The steps are: look up\n"
      "the name; connect, over TCP or RDMA; call procedure 0; mount the export, which includes MOUNT or the\n"
      "session; find the path; ask for the user's rights. A step fails if the connection or procedure 0 takes\n"
      "ten seconds, or a later step half a minute. The exit code is 1 if a step fails.",
      {"# Why does this not work?", "penstock doctor nfs://server.example/data/file",
       "# The same over RDMA, for a program", "penstock doctor --json 'nfs://server.example/data?proto=rdma'"});
  return {command, [options] { return Diagnose(*options); }};
}

}  // namespace penstock::cli
