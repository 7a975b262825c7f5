-- Degraded where it does not take effect as it stands, or what is counted by it is in doubt.
local ready
for _, condition in ipairs(obj.status ~= nil and obj.status.conditions or {}) do
  if condition.observedGeneration == obj.metadata.generation and condition.status == "True" then
    -- A limit of a flavor may be synced before its ResourceFlavor: the other limits take effect.
    local is_fault = condition.type == "Degraded" and condition.reason ~= "FlavorNotFound"
    if condition.type == "Stalled" or is_fault then
      return {status = "Degraded", message = condition.reason .. ": " .. condition.message}
    end
    if condition.type == "Ready" then
      ready = condition
    end
  end
end
if ready ~= nil then
  return {status = "Healthy", message = ready.message}
end
return {status = "Progressing", message = "nothing is said of it yet by trellis.dev/operator"}
