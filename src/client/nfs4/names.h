// The operations of client::Mount on names and attributes, in version 4. Each sends one COMPOUND.
#pragma once

#include "client/mount.h"
#include "client/nfs4/compound_caller.h"
#include "client/nfs4/locations.h"

namespace penstock::client::v4 {

Task<Result<Node>> Lookup(CompoundCaller& caller, const Handle& directory, std::string_view name);
Task<Result<std::vector<Location>>> GetLocations(CompoundCaller& caller, const Handle& directory,
                                                 std::string_view name);
Task<Result<std::vector<Location>>> GetLocationsOf(CompoundCaller& caller, const Handle& object, std::string_view what);
Task<Result<Attributes>> GetAttributes(CompoundCaller& caller, const Handle& object, std::string_view what);
Task<Result<void>> SetAttributes(CompoundCaller& caller, const Handle& object, std::string_view what,
                                 const NewAttributes& attributes);
Task<Result<std::string>> ReadLink(CompoundCaller& caller, const Handle& symlink, std::string_view what);
Task<Result<Space>> GetSpace(CompoundCaller& caller, const Handle& object, std::string_view what);
Task<Result<Node>> MakeDirectory(CompoundCaller& caller, const Handle& directory, std::string_view name, uint32_t mode);
Task<Result<Node>> MakeSymlink(CompoundCaller& caller, const Handle& directory, std::string_view name,
                               std::string_view target);
// `type` is a FIFO, a socket or a device.
Task<Result<Node>> MakeNode(CompoundCaller& caller, const Handle& directory, std::string_view name, FileType type,
                            uint32_t mode, nfs4::specdata4 device);
Task<Result<void>> Link(CompoundCaller& caller, const Handle& file, const Handle& directory, std::string_view name);
Task<Result<void>> Rename(CompoundCaller& caller, const Handle& from_directory, std::string_view from,
                          const Handle& to_directory, std::string_view to);
Task<Result<void>> Remove(CompoundCaller& caller, const Handle& directory, std::string_view name);
Task<Result<void>> RemoveDirectory(CompoundCaller& caller, const Handle& directory, std::string_view name);
Task<Result<Listing>> ListFrom(CompoundCaller& caller, const Handle& directory, std::string_view what,
                               ListPosition from, ListContent content, uint32_t most_octets);
// The names of a directory, if one reply has room for them, and its change attribute from before they were listed.
struct ListedNames {
  uint64_t change = 0;
  std::vector<std::string> names{};
  bool ends = false;
};
Task<Result<ListedNames>> ListNames(CompoundCaller& caller, const Handle& directory, std::string_view what,
                                    uint32_t most_octets);
Task<Result<client::Mount::Granted>> CheckAccess(CompoundCaller& caller, const Handle& object, std::string_view what,
                                                 uint32_t rights);

// Makes the node of `name` in `directory`.
Result<Node> NodeOf(const nfs4::GETFH4res& handle, const nfs4::GETATTR4res& attributes, const Handle& directory,
                    std::string_view name);
Error MalformedAttributes(std::string_view what);

}  // namespace penstock::client::v4
