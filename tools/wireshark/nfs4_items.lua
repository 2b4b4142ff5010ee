-- XDR items for sess01.lua, and the operations of NFS version 4.0 (RFC 7530 §16, §17): where their arguments and results end.

-- Reads XDR items in order. Each method adds a field to the tree if it is given one. Shortage and wrong values raise an error.
local Reader = {}
Reader.__index = Reader

local function wrong(text)
  error({malformed = text}, 0)
end

local function reader_of(range, tree)
  return setmetatable({range = range, at = 0, tree = tree}, Reader)
end

function Reader:take(size, field)
  if self.at + size > self.range:len() then
    wrong(string.format("%d octets are missing", self.at + size - self.range:len()))
  end
  if size == 0 then return nil end
  local taken = self.range:range(self.at, size)
  self.at = self.at + size
  if field then self.tree:add(field, taken) end
  return taken
end

function Reader:u32(field)
  local taken = self:take(4, field)
  return taken:uint()
end

function Reader:u64(field)
  return self:take(8, field):uint64()
end

-- An enumeration with the values of a table.
function Reader:enum(names, field)
  local value = self:u32(field)
  if not names[value] then wrong(string.format("value %u of an enumeration", value)) end
  return value
end

local booleans = {[0] = "FALSE", [1] = "TRUE"}
function Reader:boolean(field)
  return self:enum(booleans, field) == 1
end

function Reader:opaque(field, limit)
  local size = self:u32()
  if limit and size > limit then wrong(string.format("%u octets where %u are the limit", size, limit)) end
  local taken = self:take(size, field)
  local pad = self:take(-size % 4)
  for i = 0, (pad and pad:len() or 0) - 1 do
    if pad:range(i, 1):uint() ~= 0 then wrong("padding that is not zero") end
  end
  return taken
end

function Reader:array(each)
  for _ = 1, self:u32() do each(self) end
end

local function attributes(self)
  self:array(Reader.u32)
  self:opaque()
end

local function change_info(self)
  self:boolean()
  self:take(16)
end

-- Letters of the layouts below.
local letters = {
  u = Reader.u32, h = Reader.u64, o = Reader.opaque, b = Reader.boolean, A = attributes, c = change_info,
  m = function(self) self:array(Reader.u32) end,
  v = function(self) self:take(8) end,
  S = function(self) self:take(16) end,
}

local function read_layout(reader, layout)
  if type(layout) == "function" then return layout(reader) end
  for letter in layout:gmatch(".") do letters[letter](reader) end
end

-- ---- Minor version 0: only where the items end ----

local function create_arguments(reader)
  local kind = reader:u32()
  if kind == 5 then reader:opaque() elseif kind == 3 or kind == 4 then reader:take(8) end
  read_layout(reader, "oA")
end

local function lock_arguments(reader)
  read_layout(reader, "ubhh")
  if reader:boolean() then read_layout(reader, "uSuho") else read_layout(reader, "Su") end
end

local function open_arguments(reader)
  read_layout(reader, "uuuho")
  if reader:boolean() then
    local how = reader:u32()
    if how == 2 then reader:take(8) elseif how < 2 then attributes(reader) else wrong("createmode " .. how) end
  end
  local claim = reader:u32()
  if claim == 1 then reader:u32() elseif claim == 2 then read_layout(reader, "So")
  elseif claim == 0 or claim == 3 then reader:opaque() else wrong("open_claim_type4 " .. claim) end
end

local function open_results(reader)
  read_layout(reader, "Scum")
  local delegation = reader:u32()
  if delegation == 0 then return end
  if delegation > 2 then wrong("open_delegation_type4 " .. delegation) end
  read_layout(reader, "Sb")
  if delegation == 2 then
    local limit = reader:u32()
    if limit ~= 1 and limit ~= 2 then wrong("limit_by4 " .. limit) end
    reader:take(8)
  end
  read_layout(reader, "uuuo")
end

local function readdir_results(reader)
  reader:take(8)
  while reader:boolean() do read_layout(reader, "hoA") end
  reader:boolean()
end

local function secinfo_results(reader)
  reader:array(function(self)
    if self:u32() == 6 then read_layout(self, "ouu") end
  end)
end

local arguments = {
  [3] = "u", [4] = "uS", [5] = "hu", [6] = create_arguments, [7] = "h", [8] = "S", [9] = "m", [11] = "o", [12] = lock_arguments,
  [13] = "uhhho", [14] = "uuShh", [15] = "o", [17] = "A", [18] = open_arguments, [19] = "b", [20] = "Su", [21] = "Suuu", [22] = "o",
  [25] = "Shu", [26] = "hvuum", [28] = "o", [29] = "oo", [30] = "h", [33] = "o", [34] = "SA", [35] = "vouoou", [36] = "hv", [37] = "A",
  [38] = "Shuo", [39] = "ho",
}
local results = {
  [3] = "uu", [4] = "S", [5] = "v", [6] = "cm", [9] = "A", [10] = "o", [11] = "c", [12] = "S", [14] = "S", [18] = open_results, [20] = "S",
  [21] = "S", [25] = "bo", [26] = readdir_results, [27] = "o", [28] = "c", [29] = "cc", [33] = secinfo_results, [35] = "hv", [38] = "uuv",
}
-- Results of errors that have more than a status.
local DENIED, CLID_INUSE = 10010, 10017
local error_results = {[12] = {[DENIED] = "hhuho"}, [13] = {[DENIED] = "hhuho"}, [35] = {[CLID_INUSE] = "oo"}}
local callback_arguments, callback_results = {[3] = "om", [4] = "Sbo"}, {[3] = "A"}

return {
  arguments = arguments, results = results, error_results = error_results, callback_arguments = callback_arguments,
  callback_results = callback_results, read_layout = read_layout, reader_of = reader_of, wrong = wrong,
}
