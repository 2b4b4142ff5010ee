// penstock cat: writes files of a server to standard output.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/file_io.h"
#include "base/result.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/mounts.h"

namespace penstock::cli {
namespace {

struct CatOptions : ClientOptions {
  std::vector<std::string> urls;
};

Task<client::Result<void>> CatFile(ClientRuntime& runtime, client::Mount& mount, client::File& file) {
  const BufferRef buffer = runtime.loop().buffers().Allocate(mount.sizes().read);
  for (uint64_t offset = 0;;) {
    PENSTOCK_CO_TRY(const client::File::ReadReply read,
                    co_await file.Read(offset, buffer->bytes().first(mount.sizes().read)));
    const ConstBytes bytes = buffer->bytes().first(read.count);
    const auto written =
        co_await Offload(runtime.loop(), runtime.workers(), [bytes] { return WriteAll(STDOUT_FILENO, bytes); });
    if (!written) {
      co_return std::unexpected(
          client::Error{fmt::format("standard output: {}", DescribeErrno(written.error())), std::nullopt});
    }
    offset += read.count;
    if (read.eof || read.count == 0) co_return client::Result<void>();
  }
}

Task<client::Result<void>> CatOne(ClientRuntime& runtime, const Mounted& at) {
  PENSTOCK_CO_TRY(const client::Node node, co_await at.Resolve());
  PENSTOCK_CO_CHECK(client::CheckRegular(node, at.name));
  PENSTOCK_CO_TRY(const auto file, co_await at.mount->OpenFile(node, at.name, client::Access::kRead));
  client::Result<void> result = co_await CatFile(runtime, *at.mount, *file);
  client::Result<void> closed = co_await file->Close();
  if (!result) co_return result;
  co_return closed;
}

}  // namespace

Command AddCat(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("cat", "Write files of an NFS server to standard output");
  const auto options = std::make_shared<CatOptions>();
  command->add_option("URL", options->urls, "The files to write, one after the other")->required();
  AddClientOptions(*command, *options);
  SetFooter(*command, "",
            {"# Print a file", "penstock cat nfs://server.example/notes.txt", "# Join two files by version 3 of NFS",
             "penstock cat --vers 3 nfs://server.example/a nfs://server.example/b > both"});
  return {command, [options] { return RunOnMounts(options->urls, *options, CatOne); }};
}

}  // namespace penstock::cli
