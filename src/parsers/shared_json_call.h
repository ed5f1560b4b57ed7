#pragma once

#include <string>
#include <string_view>

#include "parsers/shared_machine.h"

namespace parsers {

// Reads the JSON object of a call, {"name": ..., "arguments": {...}}, and puts the call out: as
// soon as the name and the beginning of the arguments are read, in pieces as they come.
// "parameters" is the same as "arguments", "function" as "name"; arguments may be a string that
// holds an object.
Task<bool> ReadJsonCall(CallContext& context);

// One such object, or a list of them.
Task<bool> ReadJsonCalls(CallContext& context);

// The inside of a wrapper: such calls, and the wrapper's closer where it is there.
Task<bool> ReadWrappedJsonCalls(CallContext& context, std::string_view closer);

// Reads the object of the arguments alone and puts it out: the call has begun. False when it is cut
// or broken: what was good of it is out.
Task<bool> StreamJsonArguments(CallContext& context);

// At the arguments of a tool whose name is read: puts the call out. False, without a call, when no
// object comes.
Task<bool> ReadNamedCall(CallContext& context, std::string name, std::string id = {});

}  // namespace parsers
