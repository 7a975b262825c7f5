-- Always Healthy: a flavor is in effect once it is applied. An autoscaler with an unsuitable setting
-- appears in the message only, because its node pools may be synced after the flavor.
for _, condition in ipairs(obj.status ~= nil and obj.status.conditions or {}) do
  local is_current = condition.observedGeneration == obj.metadata.generation
  if condition.type == "AutoscalerSuitable" and condition.status ~= "True" and is_current then
    return {status = "Healthy", message = condition.reason .. ": " .. condition.message}
  end
end
return {status = "Healthy", message = ""}
