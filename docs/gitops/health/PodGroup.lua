-- The journal of a gang. It has no conditions: its phase says all.
local status = obj.status or {}
local phase = status.phase or "Pending"
local message = phase
if status.reason ~= nil then
  message = message .. ": " .. status.reason
end
if status.message ~= nil and status.message ~= "" then
  message = message .. ": " .. status.message
end
if phase == "Placed" or phase == "Finished" then
  return {status = "Healthy", message = message}
end
return {status = "Progressing", message = message}
