import { session } from "../app/live/store";
import { shortcutGroups } from "../app/page/keys";
import { Dialog } from "./Dialog";
import { Text } from "./Text";

/** All keyboard shortcuts that work on this page. */
export function Help({ onClose }: { readonly onClose: () => void }) {
  const version = session.value?.version;
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <div class="help">
        {shortcutGroups.value.map((group) => (
          <section key={group.heading}>
            <h3>{group.heading}</h3>
            <dl>
              {group.shortcuts.map((shortcut) => (
                <div key={shortcut.keys}>
                  <dt>
                    {shortcut.keys.split(" ").map((key) => (
                      <kbd key={key}>{key}</kbd>
                    ))}
                  </dt>
                  <dd>{shortcut.label}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <p class="dim">
        Shortcuts do not work while you type. {version && <Text text={`Trellis ${version}.`} />}
      </p>
    </Dialog>
  );
}
