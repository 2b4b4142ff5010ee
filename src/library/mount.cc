#include "library/mount.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/cancellation.h"
#include "base/result.h"
#include "client/call_security.h"
#include "client/transport_security.h"
#include "client/url.h"
#include "library/early_end.h"
#include "library/error_text.h"
#include "library/structures.h"
#include "rpc/tls/context.h"

using namespace penstock;           // NOLINT: the functions of the C API are in no namespace
using namespace penstock::library;  // NOLINT

namespace penstock::library {
namespace {

constexpr Duration kCloseLimit = std::chrono::seconds(10);

const char* TextOr(const char* text, const char* other) { return text ? text : other; }

// Returns zero or a negative errno.
int TakeUrl(const penstock_runtime& runtime, const char* text, const penstock_mount_options& options,
            client::Url& url) {
  auto parsed = client::Url::Parse(text);
  if (!parsed) return Fail(EINVAL, parsed.error().message);
  url = *std::move(parsed);
  if (url.protocol == client::Protocol::kStepUp && !runtime.rdma().allows_iwarp()) {
    return Fail(EINVAL, "proto=stepup uses software iWARP, which the options of the runtime exclude");
  }
  rpc::tls::Files files;
  files.authorities = TextOr(options.tls_ca, "");
  files.certificate = TextOr(options.tls_cert, "");
  files.key = TextOr(options.tls_key, "");
  if (files.certificate.empty() != files.key.empty()) {
    return Fail(EINVAL, "tls_cert and tls_key belong together: give both");
  }
  if (files.certificate.empty() && files.authorities.empty()) return 0;
  if (url.transport_security == client::TransportSecurity::kNone) {
    return Fail(EINVAL, "tls_ca, tls_cert and tls_key are without effect: the URL needs xprtsec=tls");
  }
  url.tls = std::make_shared<client::TlsClient>(std::move(files));
  return 0;
}

client::MountOptions OptionsOf(const penstock_mount_options& options) {
  client::MountOptions taken;
  taken.initiators = client::KerberosInitiators(
      {.keytab = TextOr(options.krb5_keytab, ""), .principal = TextOr(options.krb5_principal, "")});
  if (options.delegations >= 0) taken.delegations = static_cast<size_t>(options.delegations);
  return taken;
}

// Ends a mount, and waits for the server until the limit.
Task<Outcome> End(std::unique_ptr<penstock_mount> mount, Duration limit) {
  Loop& loop = mount->place.loop();
  bool aborted = false;
  const auto abort = loop.MakeTimer([&] {
    aborted = true;
    mount->mount->Abort();
  });
  abort->ExpireAfter(limit);
  // The caller may run inside of the code of a work that has just ended.
  co_await NextTurn(loop);
  co_await WaitUntilQuiet(loop, mount->activity);
  co_await mount->mount->Unmount();
  abort->Cancel();
  // Connections that close need one more turn of the loop, in which none of their own code runs.
  co_await Sleep(loop, Duration::zero());
  if (aborted) {
    constexpr auto kText = "the server did not answer: it keeps what it has for this client until the lease expires";
    co_return std::unexpected(client::Error{kText, std::nullopt, ETIMEDOUT});
  }
  co_return 0;
}

Task<Outcome> Open(Operation& operation, std::unique_ptr<penstock_mount> mount, const client::Url& url,
                   client::MountOptions options, penstock_mount** out) {
  Loop& loop = mount->place.loop();
  options.provider = &mount->runtime.ProviderFor(mount->place, url.crc);
  Cancellation cancellation;
  options.cancellation = &cancellation;
  operation.OnAbandon([&] { cancellation.Cancel(); });
  auto opened = co_await client::Mount::Open(loop, mount->runtime.workers(), url, options);
  if (!opened) {
    co_await Sleep(loop, Duration::zero());
    co_return std::unexpected(std::move(opened).error());
  }
  mount->mount = *std::move(opened);
  operation.OnAbandon([&] { mount->mount->Abort(); });
  if (operation.abandoned()) mount->mount->Abort();
  // In version 4 nobody has looked at the path yet.
  const auto found = co_await mount->mount->Resolve(PathOf(*mount, ""));
  operation.OnAbandon({});
  if (operation.abandoned() || !found) {
    const Outcome failure =
        found ? Outcome(0) : Outcome(std::unexpected(client::WithTrouble(found.error(), mount->mount->trouble())));
    (void)co_await End(std::move(mount), kCloseLimit);
    co_return failure;
  }
  mount->NoteGiven();
  *out = mount.release();
  co_return 0;
}

template <size_t kSize>
void CopyText(std::string_view from, char (&to)[kSize]) {
  to[from.copy(to, kSize - 1)] = '\0';
}

}  // namespace

std::string PathOf(const penstock_mount& mount, std::string_view path) {
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  return fmt::format("{}/{}", mount.mount->path(), path);
}

}  // namespace penstock::library

int penstock_mount_open(penstock_runtime* runtime, const char* url, const penstock_mount_options* options,
                        penstock_mount** mount, const penstock_call* call) {
  return Guarded([&] {
    if (!runtime || !url || !mount) return Fail(EINVAL, "an argument is null");
    if (const int wrong = CheckProcess(*runtime); wrong != 0) return wrong;
    penstock_mount_options given = PENSTOCK_MOUNT_OPTIONS_INIT;
    if (const int wrong = TakeStructure(options, given); wrong != 0) return wrong;
    client::Url parsed;
    if (const int wrong = TakeUrl(*runtime, url, given, parsed); wrong != 0) return wrong;
    Place& place = runtime->TakePlace();
    auto made = std::make_unique<penstock_mount>(*runtime, place);
    // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): the analyzer loses the pointer in a coroutine's frame
    return StartInt({.place = place, .activity = place.activity, .abandoned = place.abandoned_works}, call,
                    [made = std::move(made), parsed = std::move(parsed), taken = OptionsOf(given),
                     mount](Operation& operation) mutable {
                      return Open(operation, std::move(made), parsed, std::move(taken), mount);
                    });
  });
}

int penstock_mount_close(penstock_mount* mount, const penstock_call* call) {
  return Guarded([&] {
    if (!mount) return 0;
    if (const int wrong = CheckProcess(mount->runtime); wrong != 0) return wrong;
    if (const size_t files = mount->files; files > 0) return Fail(EBUSY, fmt::format("{} files are open", files));
    if (mount->activity.operations > 0) return Fail(EBUSY, "the mount has operations that have not ended");
    penstock_call taken = PENSTOCK_CALL_INIT;
    if (const int wrong = TakeStructure(call, taken); wrong != 0) return wrong;
    const Duration limit = LimitOf(taken.timeout_ms).value_or(kCloseLimit);
    // The work has the limit itself, so that it never goes on in the background.
    taken.timeout_ms = -1;
    taken.cancellation = nullptr;
    Place& place = mount->place;
    return StartInt({.place = place, .activity = place.activity, .abandoned = place.abandoned_works, .is_final = true},
                    &taken, [mount, limit](Operation&) { return End(std::unique_ptr<penstock_mount>(mount), limit); });
  });
}

int penstock_mount_get_info(penstock_mount* mount, penstock_mount_info* info, const penstock_call* call) {
  return Guarded([&] {
    if (const int wrong = CheckRoom(info); wrong != 0) return wrong;
    return static_cast<int>(
        StartOn(mount, {info}, call, [info](Operation& operation, client::Mount& inner) -> Task<Outcome> {
          if (operation.abandoned()) co_return 0;
          penstock_mount_info told = PENSTOCK_MOUNT_INFO_INIT;
          CopyText(inner.version(), told.version);
          CopyText(inner.transport() == client::Protocol::kRdma ? "rdma" : "tcp", told.transport);
          told.read_size = inner.sizes().read;
          told.write_size = inner.sizes().write;
          told.reconnections = inner.reconnections();
          GiveStructure(told, *info);
          co_return 0;
        }));
  });
}

int penstock_ping(penstock_mount* mount, const penstock_call* call) {
  return static_cast<int>(StartOn(mount, {}, call, [](Operation&, client::Mount& inner) -> Task<Outcome> {
    PENSTOCK_CO_CHECK(co_await inner.Ping());
    co_return 0;
  }));
}
